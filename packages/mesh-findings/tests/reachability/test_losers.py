"""A VirtualService that gets nothing beside others of its host is reported, and no other is."""

from collections.abc import Iterable, Mapping, Sequence

import pytest

from istio_config.kinds.virtual_service import VIRTUAL_SERVICE, HttpMatch, never_reached
from mesh_configfile import Problem
from mesh_findings import review
from mesh_findings.reachability import _losers, _losses
from mesh_model import MeshModel
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
    """Return one with the host, if no field says others; the names are in the order of ages."""
    hosts = () if any(each.startswith("hosts:") for each in fields) else ("hosts: [s.test]",)
    spec = "".join(f"  {each}\n" for each in (*hosts, *fields))
    return (
        "apiVersion: networking.istio.io/v1\nkind: VirtualService\n"
        f"metadata: {{name: {name}, namespace: {namespace}, "
        f'creationTimestamp: "202{(ord(name[0]) - ord("a")) % 10}-01-01T00:00:00Z"}}\nspec:\n{spec}'
    )


def losers(*documents: str, hosts: str = '"*.test"') -> list[tuple[str, str]]:
    """Return name and field of what is reported."""
    model = model_of(SERVICE, GATEWAY.replace("HOSTS", hosts), *documents)
    return fields_of(model, unreachable(model))


def fields_of(model: MeshModel, problems: Iterable[Problem]) -> list[tuple[str, str]]:
    items = sorted(model.rules.of_kind(VIRTUAL_SERVICE), key=lambda each: each.line)
    return [
        (next(item.name for item in reversed(items) if item.line <= each.line), each.field)
        for each in problems
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


def paths(*prefixes: str) -> str:
    """Return HTTP routes, each of a path; the empty one is of all."""
    routes = (f"match: [{{uri: {{prefix: {each}}}}}], {TO}" if each else TO for each in prefixes)
    return f"http: [{', '.join(f'{{{each}}}' for each in routes)}]"


TWO_PORTS = "tcp: [{match: [{port: 80}, {port: 5432}], route: [{destination: {host: s.test}}]}]"
TWO_NAMES = "tls: [{match: [{sniHosts: [s.test, t.test]}], route: [{destination: {host: s.test}}]}]"
IN_PART = {
    "a path of several at a Gateway": (
        [(AT_G, paths("/a", "/b")), (AT_G, paths("/c", "/b/d", "/b"))],
        [("b", "spec.http[1].match[0]", "x/a, which come first and take all requests that this ")],
    ),
    "two routes behind one": (
        [(AT_G, paths("/b")), (AT_G, paths("/c", "/b/d", "/b"))],
        [("b", "spec.http[1].match[0]", "that this and http[2].match[0] would")],
    ),
    "two routes behind different ones": (
        [(AT_G, paths("/a")), (AT_G, paths("/b")), (AT_G, paths("/a", "/b", "/c"))],
        [
            ("c", "spec.http[0].match[0]", "VirtualService x/a"),
            ("c", "spec.http[1].match[0]", "VirtualService x/b"),
        ],
    ),
    "the route of all requests": (
        [(AT_G, paths("/a", "")), (AT_G, paths("/b", ""))],
        [("b", "spec.http[1]", "VirtualService x/a")],
    ),
    "a route behind one of its own": ([(AT_G, paths("/a")), (AT_G, paths("/b", "/b/c"))], []),
    "a match at another Gateway": (
        [
            (AT_G, paths("/a")),
            (
                "gateways: [x/g, mesh]",
                f"http: [{{match: [{{uri: {{prefix: /a}}, gateways: [mesh]}}], {TO}}}, {{{TO}}}]",
            ),
        ],
        [],
    ),
    "seen by a namespace where it comes first": (
        [(AT_G, "exportTo: [y]", paths("/a")), (AT_G, "exportTo: [y, z]", paths("/a", "/b"))],
        [],
    ),
    "a port of two at sidecars": (
        [(TCP_5432,), (TWO_PORTS,)],
        [("b", "spec.tcp[0].match[1]", "all connections that this would")],
    ),
    "a name of two at sidecars": (
        [(TLS,), ("hosts: [s.test, t.test]", TWO_NAMES)],
        [("b", "spec.tls[0].match[0].sniHosts[0]", "VirtualService x/a")],
    ),
}


@pytest.mark.parametrize(("fields", "wanted"), IN_PART.values(), ids=IN_PART)
def test_what_loses_in_part_is_warned_of(
    fields: list[tuple[str, ...]], wanted: list[tuple[str, str, str]]
) -> None:
    named = [virtual_service("abc"[at], *each) for at, each in enumerate(fields)]
    model = model_of(SERVICE, GATEWAY.replace("HOSTS", '"*.test"'), *named)
    found = review(model)
    warned = sorted(zip(fields_of(model, found.warnings), found.warnings, strict=True))

    assert found.problems == ()
    assert [place for place, _ in warned] == [(name, field) for name, field, _ in wanted]
    for (_, _, said), (_, warning) in zip(wanted, warned, strict=True):
        assert said in warning.message
        assert "s.test" in warning.message


def test_each_host_has_its_own_winner() -> None:
    """The hosts meet at those of the Gateway: the pattern of one is the host of another there."""
    first = virtual_service("a", AT_G, API, 'hosts: ["*.test"]')
    second = virtual_service("b", AT_G, ANY, "hosts: [t.test]")
    third = virtual_service("c", AT_G, BOTH, "hosts: [s.test, t.test]")
    model = model_of(SERVICE, GATEWAY.replace("HOSTS", "s.test, t.test"), first, second, third)
    found = review(model)

    assert fields_of(model, found.problems) == [("c", "spec.hosts[1]")]
    assert '"t.test" at Gateway x/g' in found.problems[0].message
    assert fields_of(model, found.warnings) == [("c", "spec.http[0].match[0]")]
    assert '"s.test" at Gateway x/g has the routes of VirtualService x/a' in (
        found.warnings[0].message
    )


def test_one_takes_nothing_at_a_port_where_it_has_another_host() -> None:
    first = virtual_service("a", AT_G, ANY, 'hosts: ["*.test"]')
    second = virtual_service("b", AT_G, ANY)
    port = "{port: {number: 81, name: http-81, protocol: HTTP}, hosts: ['*.test']}"

    one = GATEWAY.replace("HOSTS", "s.test")
    model = model_of(SERVICE, one, first, second)
    assert fields_of(model, unreachable(model)) == [("b", HOST)]

    both = one.replace("hosts: [s.test]}]", f"hosts: [s.test]}}, {port}]")
    assert unreachable(model_of(SERVICE, both, first, second)) == ()


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

    def counting(matches: Sequence[HttpMatch]) -> Mapping[int, int]:
        nonlocal compared
        compared += len(matches)
        return never_reached(matches)

    monkeypatch.setattr(_losses, "never_reached", counting)
    exported = f"exportTo: [{', '.join(f'n{at}' for at in range(300))}]"
    many = [virtual_service(f"v{at}", AT_G, exported, API) for at in range(200)]

    unreachable(model_of(SERVICE, GATEWAY.replace("HOSTS", '"*.test"'), *many))

    assert 0 < compared <= _losers._MOST_COMPARED + 200
