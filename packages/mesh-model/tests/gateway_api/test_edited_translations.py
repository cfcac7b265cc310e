"""A translation that takes over from the one before is the same as one that is built anew."""

from hypothesis import given
from hypothesis import strategies as st

from gateway_api_meshes import aliased, mesh_facts, objects_of, service
from mesh_model.gateway_api._translation import GatewayApi

POOL = objects_of("""
kind: Gateway
metadata: {name: gw}
spec:
  gatewayClassName: istio
  listeners:
  - {name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}
  - {name: narrow, port: 80, protocol: HTTP, hostname: "*.a.example"}
  - {name: tcp, port: 90, protocol: TCP}
---
kind: Gateway
metadata: {name: gw}
spec: {gatewayClassName: istio, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: Gateway
metadata: {name: gw}
spec: {gatewayClassName: other, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: HTTPRoute
metadata: {name: a}
spec: {parentRefs: [{name: gw}], rules: [{backendRefs: [{name: cart, port: 80}]}]}
---
kind: HTTPRoute
metadata: {name: b}
spec:
  parentRefs: [{name: gw}]
  hostnames: [x.a.example, b.example]
  rules: [{backendRefs: [{name: log, port: 80}]}]
---
kind: HTTPRoute
metadata: {name: b, namespace: depot}
spec:
  parentRefs: [{name: gw, namespace: shop}, {group: "", kind: Service, name: cart, namespace: shop}]
  rules: [{backendRefs: [{name: cart, namespace: shop, port: 80}]}]
---
kind: GRPCRoute
metadata: {name: 0-grpc}
spec: {parentRefs: [{name: gw}], hostnames: [b.example], rules: [{}]}
---
kind: TCPRoute
metadata: {name: t}
spec: {parentRefs: [{name: gw}], rules: [{backendRefs: [{name: cart, port: 80}]}]}
---
kind: TCPRoute
metadata: {name: u}
spec: {parentRefs: [{name: gw, sectionName: tcp}], rules: [{backendRefs: [{name: log, port: 80}]}]}
---
kind: ReferenceGrant
metadata: {name: g}
spec:
  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: depot}]
  to: [{group: "", kind: Service}]
""")
SERVICES = (
    service("cart", 80),
    service("log", 80),
    aliased(service("stock", 80), "cart"),
    aliased(service("stock", 81), "log"),
)
KEYS = [(each.kind, each.namespace, each.name) for each in POOL]

_meshes = st.tuples(
    st.lists(st.sampled_from(range(len(POOL))), unique_by=lambda index: KEYS[index]),
    st.lists(st.sampled_from(SERVICES), unique_by=lambda each: each.host),
)


@given(st.lists(_meshes, min_size=2, max_size=5))
def test_edits_lead_to_what_a_fresh_start_gives(
    meshes: list[tuple[list[int], list[object]]],
) -> None:
    before: GatewayApi | None = None
    for indexes, services in meshes:
        objects = tuple(POOL[index] for index in sorted(indexes))
        around = mesh_facts(each for each in SERVICES if each in services)
        fresh = GatewayApi.build(objects, around)
        before = GatewayApi.build(objects, around, before)
        assert before.gateways == fresh.gateways
        assert before.virtual_services == fresh.virtual_services
        assert before.statuses == fresh.statuses
        assert before.warnings == fresh.warnings
