"""Route configurations after edits are those of a control plane that has just been started."""

from hypothesis import given, settings
from hypothesis import strategies as st

from destination_rules import policy
from envoy_config.context._context import PushContext
from envoy_config.plan._proxy import Proxy
from proxies import proxy_of
from virtual_services import model_of, only, virtual_service
from xds_server import Node

SERVICES = [
    f"""\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: {name}, namespace: b}}
spec:
  hosts: [{name}.b.svc.cluster.local]
  resolution: STATIC
  ports: [{{number: 80, name: http, protocol: HTTP}}, {{number: 81, name: http-81, protocol: HTTP}}]
"""
    for name in ("r", "s", "t")
]
NAMES = frozenset({"80", "81", "82"})

hosts = st.sampled_from(
    ["r.b.svc.cluster.local", "s.b.svc.cluster.local", "'*.b.svc.cluster.local'", "other.example"]
)
routes = st.sampled_from(
    [
        only(host="r.b.svc.cluster.local"),
        only("v1", host="s.b.svc.cluster.local"),
        "match: [{port: 81}], " + only(host="s.b.svc.cluster.local"),
        "match: [{sourceNamespace: c}], " + only(host="t.b.svc.cluster.local"),
        "timeout: 1s, " + only(host="r.b.svc.cluster.local"),
        "directResponse: {status: 418}",
    ]
)
virtual_services = st.builds(
    lambda name, host, listed, export: virtual_service(
        *listed, name=name, hosts=host, more=f"exportTo: ['{export}']"
    ),
    st.sampled_from(["x", "y", "z"]),
    hosts,
    st.lists(routes, min_size=1, max_size=2),
    st.sampled_from(["*", "*", "."]),
)
rules = st.sampled_from(
    [
        [],
        [policy("{connectionPool: {tcp: {maxConnections: 1}}}")],
        [policy("{connectionPool: {tcp: {maxConnections: 2}}}")],
        [policy("{loadBalancer: {consistentHash: {httpHeaderName: x}}}")],
    ]
)


def proxy(namespace: str) -> Proxy:
    return proxy_of(Node(id=f"sidecar~10.0.0.1~p.{namespace}~{namespace}.svc.cluster.local"))


def by_name(documents: list[str]) -> list[str]:
    """Return the documents without those whose name another has."""
    return list({text.split("name: ", 1)[1].split(",")[0]: text for text in documents}.values())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.lists(virtual_services, max_size=3).map(by_name), rules),
        min_size=2,
        max_size=5,
    )
)
def test_routes_after_edits_are_those_of_a_fresh_start(
    edits: list[tuple[list[str], list[str]]],
) -> None:
    context: PushContext | None = None
    for found, chosen in edits:
        model = model_of(*SERVICES, *found, *chosen, before=context.model if context else None)
        context = PushContext(model, before=context)
        fresh = PushContext(model_of(*SERVICES, *found, *chosen))
        for each in (proxy("b"), proxy("c")):
            after = context.routes(each, NAMES).resources
            assert after == fresh.routes(each, NAMES).resources
