"""All traffic: who sends what where, and which workloads it passes and needs."""

from mesh_chaos._books import Lane
from mesh_chaos._traffic import Questions, Requests

EDGE_HOST = "shop.example"
OUTSIDE = "outside.example"
OUTSIDE_ADDRESS = "192.0.2.77"
_CALLER = "caller"
_BACKENDS = frozenset({"backend-1", "backend-2"})

Sent = tuple[Requests | Questions, Lane]


def lanes(*, inbound: str, outbound: str, edge_port: int, outside: bool) -> tuple[Sent, ...]:
    """Return all lanes. inbound, outbound: caller's addresses. outside: there are resolvers."""
    every = (
        _http(outbound),
        _tcp(outbound),
        _gateway(edge_port),
        _names("names", inbound, ask="backend.default.svc.cluster.local", expect=outbound, rate=5),
    )
    if not outside:
        return every
    asked = f"RANDOM.{OUTSIDE}"
    return (*every, _names("names outside", inbound, ask=asked, expect=OUTSIDE_ADDRESS, rate=3))


def _http(outbound: str) -> Sent:
    requests = Requests(
        name="http",
        sender=_CALLER,
        host=outbound,
        port=15002,
        url="http://backend:8080/",
        authority="backend",
    )
    return requests, Lane(name="http", passes=_BACKENDS | {_CALLER}, needs=frozenset({_CALLER}))


def _tcp(outbound: str) -> Sent:
    both = frozenset({_CALLER, "store"})
    requests = Requests(name="tcp", sender=_CALLER, host=outbound, port=9000, rate=10)
    return requests, Lane(name="tcp", passes=both, needs=both)


def _gateway(port: int) -> Sent:
    requests = Requests(name="gateway", host="127.0.0.1", port=port, authority=EDGE_HOST)
    return requests, Lane(name="gateway", passes=_BACKENDS | {"edge"}, needs=frozenset({"edge"}))


def _names(name: str, inbound: str, *, ask: str, expect: str, rate: float) -> Sent:
    questions = Questions(
        name=name, sender=_CALLER, host=inbound, port=15053, ask=ask, expect=expect, rate=rate
    )
    return questions, Lane(name=name, passes=frozenset(), needs=frozenset({_CALLER}))
