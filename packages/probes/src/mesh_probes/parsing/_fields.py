"""Fields of JSON objects, taken out with the problems that they have."""

from collections.abc import Mapping
from typing import Literal

from mesh_probes._errors import ProbeConfigError
from mesh_probes._probe import (
    HIGHEST_PORT,
    GrpcHealth,
    HttpGet,
    TcpSocket,
    header_problem,
    host_problem,
    text_problem,
)

HIGHEST_INT32 = 2**31 - 1


class Fields:
    """An object of a document. What is wrong in it is noted, and a default returned in its place.

    subject: the probe, which each problem begins with; place: the way to the object within it.
    """

    def __init__(
        self, values: Mapping[object, object], *, subject: str, place: str, problems: list[str]
    ) -> None:
        self._values = values
        self._subject = subject
        self._place = place
        self._problems = problems

    def problem(self, text: str) -> None:
        """Note what is wrong."""
        self._problems.append(f"{self._subject}: {text}")

    def present(self, *names: str) -> list[str]:
        """Return those of the names that have a value; null is none."""
        return [name for name in names if self._values.get(name) is not None]

    def refuse_others(self, *names: str) -> None:
        """Note each field that is not among the names."""
        for name in self._values:
            if name not in names:
                self.problem(f"{self._path(name)} is no field; there are {', '.join(names)}")

    def integer(self, name: str, *, lowest: int = 0, highest: int = HIGHEST_INT32) -> int:
        """Return a number; 0 for none."""
        given = self._values.get(name)
        value = 0 if given is None else given
        if type(value) is int and lowest <= value <= highest:
            return value
        needed = f"an integer from {lowest} to {highest} is needed"
        self.problem(f"{self._path(name)} is {_shown(given)}, {needed}")
        return lowest

    def port(self) -> int:
        """Return the port, which has to be given."""
        return self.integer("port", lowest=1, highest=HIGHEST_PORT)

    def text(self, name: str) -> str:
        """Return a text; "" for none."""
        value = self._values.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            self.problem(f"{self._path(name)} is {_shown(value)}, text is needed")
            return ""
        if problem := text_problem(value):
            self.problem(f"{self._path(name)} {problem}")
            return ""
        return value

    def host(self) -> str:
        """Return the host; "" for none."""
        text = self.text("host")
        if problem := host_problem(text):
            self.problem(f"{self._path('host')} {problem}")
            return ""
        return text

    def child(self, name: str) -> "Fields":
        """Return the object in a field."""
        return self._object(self._values.get(name), self._path(name))

    def items(self, name: str) -> list[object]:
        """Return a list; an empty one for none."""
        value = self._values.get(name)
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            self.problem(f"{self._path(name)} is {_shown(value)}, a list is needed")
            return []
        return list(value)

    def children(self, name: str) -> "list[Fields]":
        """Return the objects of a list."""
        return [
            self._object(value, f"{self._path(name)}[{number}]")
            for number, value in enumerate(self.items(name))
        ]

    def _object(self, value: object, place: str) -> "Fields":
        if isinstance(value, Mapping):
            return Fields(value, subject=self._subject, place=place, problems=self._problems)
        self.problem(f"{place} is {_shown(value)}, an object is needed")
        # That is enough: that its fields are missing goes unsaid.
        return Fields({}, subject=self._subject, place=place, problems=[])

    def _path(self, name: object) -> str:
        return f"{self._place}.{name}" if self._place else str(name)


def fields_of(value: object, *, subject: str, problems: list[str]) -> Fields | None:
    """Return the fields of a probe, or note that it is no object."""
    if isinstance(value, Mapping):
        return Fields(value, subject=subject, place="", problems=problems)
    problems.append(f"{subject}: it is {_shown(value)}, an object is needed")
    return None


def http_get(fields: Fields, *, host: str, http2: bool = False) -> HttpGet | None:
    """Return the action of an `httpGet`, or None with its problems noted."""
    port = fields.port()
    scheme: Literal["http", "https"] = "http"
    match fields.text("scheme").lower():
        case "" | "http":
            pass
        case "https":
            scheme = "https"
        case other:
            fields.problem(f"the scheme of httpGet is {_shown(other)}, HTTP or HTTPS is needed")
    headers = []
    for header in fields.children("httpHeaders"):
        name, value = header.text("name"), header.text("value")
        if problem := header_problem(name, value):
            fields.problem(f"in httpGet.httpHeaders, {problem}")
        headers.append((name, value))
    path = fields.text("path") or "/"
    try:
        return HttpGet(
            port=port,
            path=path,
            host=host,
            scheme=scheme,
            headers=tuple(headers),
            http2=http2 and scheme == "https",
        )
    except ValueError:
        return None  # The problem was noted above.


def tcp_socket(fields: Fields, *, host: str) -> TcpSocket:
    """Return the action of a `tcpSocket`."""
    return TcpSocket(port=fields.port(), host=host)


def grpc_health(fields: Fields) -> GrpcHealth:
    """Return the action of a `grpc`."""
    return GrpcHealth(port=fields.port(), service=fields.text("service"))


def raise_all(problems: list[str]) -> None:
    """Raise `ProbeConfigError` if there are problems."""
    if problems:
        raise ProbeConfigError(*problems)


def _shown(value: object) -> str:
    if value is None:
        return "missing"
    text = repr(value) if isinstance(value, str | int | float) else type(value).__name__
    return text if len(text) <= 100 else f"{text[:100]}…"
