"""DestinationRules where routes lead to their subsets: hashing, merged rules, tunnels."""

import asyncio
import ssl

from destination_rules import policy, rule
from planes import eventually
from scenarios import Scene

ROUTES = """\
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: s, namespace: b}
spec:
  hosts: [s]
  http:
  - match: [{headers: {version: {exact: v1}}}]
    route: [{destination: {host: s, subset: v1}}]
  - match: [{headers: {version: {exact: both}}}]
    route: [{destination: {host: s, subset: both}}]
  - route: [{destination: {host: s, subset: v2}}]
"""
VERSIONS = """\
subsets:
- name: v1
  labels: {version: v1}
- name: v2
  labels: {version: v2}
"""


async def test_equal_keys_go_to_one_endpoint(scene: Scene) -> None:
    reviews = await scene.reviews()
    client = reviews.client
    await scene.apply(rule=policy("{loadBalancer: {consistentHash: {httpHeaderName: x-user}}}"))

    found = {}
    for user in map(str, range(12)):
        asked = [await client.get("http://s.b/", headers={"x-user": user}) for _ in range(3)]
        (found[user],) = {each.version for each in asked}

    assert set(found.values()) == {"v1", "v2"}


async def test_a_session_cookie_is_set_and_kept_to(scene: Scene) -> None:
    reviews = await scene.reviews()
    client = reviews.client
    await scene.apply(
        rule=policy(
            "{loadBalancer: {consistentHash: {httpCookie: {name: user, path: /, ttl: 0s, "
            "attributes: [{name: SameSite, value: Strict}]}}}}"
        )
    )

    for _ in range(6):
        first = await client.get("http://s.b/")
        cookie = first.headers["set-cookie"]
        assert cookie.startswith("user=")
        assert "SameSite=Strict" in cookie
        assert "Max-Age" not in cookie
        again = await client.get("http://s.b/", headers={"cookie": cookie.partition(";")[0]})
        assert again.version == first.version
        assert "set-cookie" not in again.headers


async def test_a_subset_has_its_own_settings_and_the_general_ones(scene: Scene) -> None:
    reviews = await scene.reviews()
    client = reviews.client
    await scene.apply(
        routes=ROUTES,
        rule=rule(
            "trafficPolicy:\n"
            "  outlierDetection: {consecutive5xxErrors: 1, interval: 100ms, "
            "baseEjectionTime: 60s, maxEjectionPercent: 100}\n"
            "subsets:\n"
            "- name: both\n"
            "  labels: {app: s}\n"
            "  trafficPolicy: {loadBalancer: {consistentHash: {httpHeaderName: x-user}}}\n"
            "- {name: v2, labels: {version: v2}}\n"
        ),
    )
    asked = {"version": "both", "x-user": "one"}
    (version,) = {(await client.get("http://s.b/", headers=asked)).version for _ in range(4)}
    other = {"v1": "v2", "v2": "v1"}[version]
    failing = reviews.v1 if version == "v1" else reviews.v2
    failing.answer(status=500)

    async def moved() -> bool:
        return (await client.get("http://s.b/", headers=asked)).version == other

    await eventually(moved, what="the key's way to the other endpoint")


async def test_rules_of_one_host_are_merged_the_older_first(scene: Scene) -> None:
    reviews = await scene.reviews()
    client = reviews.client
    one = "trafficPolicy: {connectionPool: {http: {maxRequestsPerConnection: 1}}}\n"
    await scene.apply(
        routes=ROUTES,
        older=rule(
            f"{one}subsets: [{{name: v1, labels: {{version: v1}}}}]",
            name="z",
            created="2020-01-01T00:00:00Z",
        ),
        younger=rule(
            "trafficPolicy: {tls: {mode: SIMPLE}}\n"
            + VERSIONS.replace("version: v1", "version: v2"),
            name="a",
            created="2021-01-01T00:00:00Z",
        ),
    )

    for version in ("v1", "v2"):
        answers = [await client.get("http://s.b/", headers={"version": version}) for _ in range(3)]
        assert {(each.status, each.version) for each in answers} == {(200, version)}
        cluster = f"cluster.outbound|80|{version}|s.b.svc.cluster.local;"
        assert await client.stat(f"{cluster}.upstream_cx_max_requests") == 3


async def test_a_route_to_a_subset_that_no_rule_has_leads_nowhere(scene: Scene) -> None:
    reviews = await scene.reviews()
    await scene.apply(routes=ROUTES, rule=rule(VERSIONS))
    both = {"version": "both"}

    assert (await reviews.client.get("http://s.b/both", headers=both)).status == 503
    assert (await reviews.client.logged(path="/both"))["response_flags"] == "NC"
    assert (await reviews.client.get("http://s.b/")).version == "v2"


PROXY = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: proxy, namespace: a}}
spec:
  hosts: [proxy.example]
  resolution: STATIC
  ports: [{{number: 3128, name: tcp, protocol: TCP, targetPort: {port}}}]
  endpoints: [{{address: {address}}}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: x, namespace: a}}
spec:
  hosts: [x.example]
  resolution: DNS
  ports: [{{number: 443, name: tls, protocol: TLS}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: x, namespace: a}}
spec:
  hosts: [x.example]
  tls:
  - match: [{{sniHosts: [x.example], port: 443}}]
    route: [{{destination: {{host: proxy.example, port: {{number: 3128}}}}}}]
"""


class _Proxy:
    """An HTTP proxy that connects everything to one address."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.asked: list[str] = []
        self._target = target

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(head.decode().partition("\r\n")[0])
        there, to = await asyncio.open_connection(*self._target)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(_passed_on(reader, to), _passed_on(there, writer))


async def _passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
    finally:
        writer.close()


async def test_a_tunnel_is_asked_for_by_connect(scene: Scene) -> None:
    echo = await scene.echo("x", tls=scene.tls("x.example"))
    proxy = _Proxy((echo.address, echo.port))
    address, port = scene.network.address(), 3128
    server = await asyncio.start_server(proxy.serve, address, port)
    async with server:
        client = await scene.sidecar("c", namespace="a", service_account="c")
        await scene.apply(
            x=PROXY.format(address=address, port=port),
            rule=policy(
                "{tunnel: {protocol: CONNECT, targetHost: x.example, targetPort: 443}}",
                name="proxy",
                namespace="a",
                host="proxy.example",
            ),
        )
        context = ssl.create_default_context(cadata=scene.authority.root_pem.decode())

        answer = await client.get("https://x.example/", ssl=context)

    assert answer.version == "x"
    assert proxy.asked == ["CONNECT x.example:443 HTTP/1.1"]
