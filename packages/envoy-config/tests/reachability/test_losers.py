"""A VirtualService that gets nothing beside others of its host is reported, and no other is."""

from collections.abc import Sequence

import pytest

from envoy_config.reachability import _losers
from istio_config.kinds.virtual_service import VIRTUAL_SERVICE, HttpMatch, never_reached
from unreachable import unreachable
from virtual_services import model_of

SERVICE = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: s, namespace: x}
spec:
  hosts: [s.test]
  resolution: STATIC
  ports:
  - {number: 80, name: http, protocol: HTTP}
  - {number: 443, name: tls, protocol: TLS}
  - {number: 5432, name: tcp, protocol: TCP}
"""
GATEWAY = """\
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: g, namespace: x}
spec:
  selector: {istio: ingress}
  servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: [HOSTS]}]
"""
TO = "route: [{destination: {host: s.test, port: {number: 80}}}]"
ANY, API = f"http: [{{{TO}}}]", f"http: [{{match: [{{uri: {{prefix: /api}}}}], {TO}}}]"
API_V1 = f"http: [{{match: [{{uri: {{prefix: /api/v1}}}}], {TO}}}]"
BOTH = f"http: [{{match: [{{uri: {{prefix: /api}}}}], {TO}}}, {{{TO}}}]"
AT_G, AT_BOTH = "gateways: [x/g]", "gateways: [x/g, mesh]"
TCP = f"tcp: [{{{TO}}}]"
TCP_5432 = f"tcp: [{{match: [{{port: 5432}}], {TO}}}]"
TLS = f"tls: [{{match: [{{sniHosts: [s.test]}}], {TO}}}]"


def virtual_service(name: str, *fields: str, namespace: str = "x") -> str:
    """Return one with the host; the names are in the order of their ages."""
    spec = "".join(f"  {each}\n" for each in ("hosts: [s.test]", *fields))
    return (
        "apiVersion: networking.istio.io/v1\nkind: VirtualService\n"
        f"metadata: {{name: {name}, namespace: {namespace}, "
        f'creationTimestamp: "202{(ord(name[0]) - ord("a")) % 10}-01-01T00:00:00Z"}}\nspec:\n{spec}'
    )


def losers(*documents: str, hosts: str = '"*.test"') -> list[tuple[str, str]]:
    """Return name and field of what is reported."""
    model = model_of(SERVICE, GATEWAY.replace("HOSTS", hosts), *documents)
    items = sorted(model.rules.of_kind(VIRTUAL_SERVICE), key=lambda each: each.line)
    return [
        (next(item.name for item in reversed(items) if item.line <= each.line), each.field)
        for each in unreachable(model)
    ]


HOST = "spec.hosts[0]"
CASES = {
    "all requests at a Gateway": ([(AT_G, ANY), (AT_G, ANY)], [("b", HOST)]),
    "a narrower path at a Gateway": ([(AT_G, API), (AT_G, API_V1)], [("b", HOST)]),
    "a path before all requests at a Gateway": ([(AT_G, ANY), (AT_G, API)], []),
    "a path of its own at a Gateway": ([(AT_G, API), (AT_G, BOTH)], []),
    "behind two together": ([(AT_G, API), (AT_G, ANY), (AT_G, BOTH)], [("c", HOST)]),
    "at different gateways": ([(AT_G, ANY), (ANY,)], []),
    "at sidecars and a Gateway": ([(AT_BOTH, ANY), (AT_BOTH, ANY)], [("b", HOST)] * 2),
    "private at a Gateway, before a public one": (
        [(AT_G, ANY), (AT_G, ANY, 'exportTo: ["."]')],
        [],
    ),
    "private to the same namespace": (
        [(ANY, 'exportTo: ["."]'), (ANY, 'exportTo: ["."]')],
        [("b", HOST)],
    ),
    "named behind private": ([(ANY, "exportTo: [y]"), (ANY, "exportTo: [y, z]")], []),
    "named behind the same names": (
        [(ANY, "exportTo: [y, z]"), (ANY, "exportTo: [y]")],
        [("b", HOST)],
    ),
    "named before public": ([(ANY,), (ANY, "exportTo: [y]")], []),
    "tcp at sidecars": ([(TCP,), (TCP_5432,)], [("b", "spec.tcp")]),
    "tcp of one port before all": ([(TCP_5432,), (TCP,)], []),
    "tcp beside http": ([(TCP,), (ANY,)], []),
    "tls at sidecars": ([(TLS,), (TLS,)], [("b", "spec.tls")]),
    "tcp of a label": (
        [(TCP.replace("tcp: [{", "tcp: [{match: [{sourceLabels: {a: b}}], "),), (TCP,)],
        [],
    ),
}


@pytest.mark.parametrize(("fields", "wanted"), CASES.values(), ids=CASES)
def test_what_gets_nothing_is_reported(
    fields: list[tuple[str, ...]], wanted: list[tuple[str, str]]
) -> None:
    named = [virtual_service("abc"[at], *each) for at, each in enumerate(fields)]

    assert losers(*named) == wanted


def test_one_that_the_gateway_does_not_serve_takes_nothing() -> None:
    first = virtual_service("a", AT_G, ANY, namespace="w")
    second = virtual_service("b", AT_G, ANY)

    assert losers(first, second, hosts='"x/*.test"') == [("a", "spec.gateways[0]")]
    assert losers(first, second) == [("b", HOST)]


def test_many_that_are_exported_to_many_cost_a_bounded_number_of_comparisons(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A tenant writes 200 VirtualServices of one host, for 300 namespaces each."""
    compared = 0

    def counting(matches: Sequence[HttpMatch]) -> frozenset[int]:
        nonlocal compared
        compared += len(matches)
        return never_reached(matches)

    monkeypatch.setattr(_losers, "never_reached", counting)
    exported = f"exportTo: [{', '.join(f'n{at}' for at in range(300))}]"
    many = [virtual_service(f"v{at}", AT_G, exported, API) for at in range(200)]

    unreachable(model_of(SERVICE, GATEWAY.replace("HOSTS", '"*.test"'), *many))

    assert 0 < compared <= _losers._MOST_COMPARED + 200
