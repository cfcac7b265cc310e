"""VirtualServices at random, with what users write by mistake among it."""

from random import Random
from typing import Any

_TEXTS = ["a", "/", "/a", "/a/", "A", "%%", "a%REQ(b)%"]
_REGEXES = [".*", "/a+", "^/(a)(b)$", "(?i)x", r"\d+"]
_HEADERS = ["x", "X-Y", "y", "x.z"]
_HOSTS = ["r", "r.a.svc.cluster.local", "*.x", "s.b", "10.0.0.1", "U.example"]
_DURATIONS = ["1s", "1ms", "24h", "1500ms", "1.5s"]
_STATUSES = [200, 301, 302, 418, 503, 599]
_WEIGHTS = [1, 2, 50, 100]
_PERCENTS = [0, 0.0001, 1, 50.5, 100]
_RARE: dict[int, list[Any]] = {
    id(_TEXTS): ["", "*", "a b", "é", "x\ny", "%", "\\1", "%X%", "\\"],
    id(_REGEXES): ["[", "a{1001}", "*", "", "(?=a)", "(" * 100 + ")" * 100],
    id(_HEADERS): [":authority", ":path", "host", "", "a b", "@request.auth.claims.a", "é"],
    id(_HOSTS): ["", "a b", "*"],
    id(_DURATIONS): ["0s", "100us"],
    id(_STATUSES): [0, 100, 305, 600],
    id(_WEIGHTS): [0, -1, 4294967295],
    id(_PERCENTS): [0.00001, 101, -1],
}
"""Mostly mistakes, or what Envoy may read otherwise than it is meant."""


class RandomVirtualServices:
    """Makes specs, each field of which may be there or not."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def spec(self) -> dict[str, Any]:
        """Return the next spec."""
        return {
            "hosts": ["r"],
            "gateways": ["mesh", "g"],
            "http": [self._route() for _ in range(self._random.randint(1, 2))],
        }

    def _one(self, values: list[Any]) -> Any:
        rare = _RARE.get(id(values), [])
        return self._random.choice(rare if rare and self._random.random() < 0.05 else values)

    def _some(self, **fields: Any) -> dict[str, Any]:
        """Return some of the fields; each is drawn by a function."""
        share = self._one([0.2, 0.5])
        return {name: make() for name, make in fields.items() if self._random.random() < share}

    def _string(self) -> dict[str, Any]:
        kind = self._one(["exact", "prefix", "regex", "none"])
        if kind == "none":
            return {}
        return {kind: self._one(_REGEXES if kind == "regex" else _TEXTS)}

    def _strings(self) -> dict[str, Any]:
        return {self._one(_HEADERS): self._string() for _ in range(self._random.randint(0, 2))}

    def _match(self) -> dict[str, Any]:
        return self._some(
            name=lambda: "m",
            uri=self._string,
            scheme=self._string,
            method=self._string,
            authority=self._string,
            headers=self._strings,
            withoutHeaders=self._strings,
            queryParams=self._strings,
            ignoreUriCase=lambda: True,
            statPrefix=lambda: self._one(_TEXTS),
        )

    def _changes(self) -> dict[str, Any]:
        return {self._one(_HEADERS): self._one(_TEXTS) for _ in range(self._random.randint(0, 2))}

    def _operations(self) -> dict[str, Any]:
        return self._some(
            set=self._changes, add=self._changes, remove=lambda: [self._one(_HEADERS)]
        )

    def _headers(self) -> dict[str, Any]:
        return self._some(request=self._operations, response=self._operations)

    def _destination(self) -> dict[str, Any]:
        return {
            "host": self._one(_HOSTS),
            **self._some(subset=lambda: self._one(["v1", ""]), port=lambda: {"number": 80}),
        }

    def _weighted(self) -> dict[str, Any]:
        return {
            "destination": self._destination(),
            "weight": self._one(_WEIGHTS),
            **self._some(headers=self._headers),
        }

    def _percentage(self) -> dict[str, Any]:
        return {"value": self._one(_PERCENTS)}

    def _route(self) -> dict[str, Any]:
        action = self._one(["route", "route", "route", "redirect", "directResponse"])
        route: dict[str, Any] = {
            "match": [self._match() for _ in range(self._random.randint(0, 2))]
        }
        if action == "route":
            route["route"] = [self._weighted() for _ in range(self._random.randint(1, 3))]
        elif action == "redirect":
            route["redirect"] = self._some(
                uri=lambda: self._one(_TEXTS),
                prefixRewrite=lambda: self._one(_TEXTS),
                authority=lambda: self._one(_TEXTS),
                scheme=lambda: self._one(["http", "https", "ftp"]),
                port=lambda: 8080,
                redirectCode=lambda: self._one(_STATUSES),
            )
        elif action == "directResponse":
            route["directResponse"] = {
                "status": self._one(_STATUSES),
                **self._some(body=lambda: {"string": self._one(_TEXTS)}),
            }
        return route | self._some(
            name=lambda: self._one(_TEXTS),
            headers=self._headers,
            rewrite=lambda: self._some(
                uri=lambda: self._one(_TEXTS),
                authority=lambda: self._one(_TEXTS),
                uriRegexRewrite=lambda: {
                    "match": self._one(_REGEXES),
                    "rewrite": self._one(_TEXTS),
                },
            ),
            timeout=lambda: self._one(_DURATIONS),
            retries=lambda: {
                "attempts": self._one(_WEIGHTS),
                **self._some(
                    perTryTimeout=lambda: self._one(_DURATIONS),
                    retryOn=lambda: self._one(["5xx", "503", "5xx, 503,reset"]),
                    retryRemoteLocalities=lambda: True,
                    retryIgnorePreviousHosts=lambda: self._one([True, False]),
                    backoff=lambda: self._one(_DURATIONS),
                ),
            },
            fault=lambda: self._some(
                delay=lambda: self._some(
                    fixedDelay=lambda: self._one(_DURATIONS), percentage=self._percentage
                ),
                abort=lambda: {
                    **self._some(percentage=self._percentage),
                    **self._one([{"httpStatus": self._one(_STATUSES)}, {"grpcStatus": "OK"}, {}]),
                },
            ),
            mirrors=lambda: [
                {"destination": self._destination(), **self._some(percentage=self._percentage)}
            ],
            corsPolicy=lambda: self._some(
                allowOrigins=lambda: [self._string()],
                allowOrigin=lambda: [self._one(_TEXTS)],
                allowMethods=lambda: [self._one(["GET", "*"])],
                allowHeaders=lambda: [self._one(_HEADERS)],
                exposeHeaders=lambda: [self._one(_HEADERS)],
                maxAge=lambda: self._one(_DURATIONS),
                allowCredentials=lambda: True,
                unmatchedPreflights=lambda: self._one(["FORWARD", "IGNORE"]),
            ),
        )
