"""Requests to servers outside the mesh offer the protocols of their cluster, not the mesh's own."""

import pytest

from destination_rules import policy
from envoy_config.generate.routes._http_routes import scope_routes
from envoy_config.plan._envoy_names import MESH_ALPN_FILTER
from mesh_model import Scope, ScopeKey
from virtual_services import HOST, model_of, only, to, virtual_service

SERVICE = f"""\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: s, namespace: b}}
spec: {{hosts: [{HOST}], resolution: STATIC, ports: [{{number: 80, name: http, protocol: HTTP}}]}}
"""
CASES = {
    "TLS of its own at a redirected proxy": ("SIMPLE", ScopeKey("a", redirected=True), True),
    "TLS of its own at a gateway": ("SIMPLE", ScopeKey("a", is_sidecar=False), True),
    "TLS of its own without that filter": ("SIMPLE", ScopeKey("a"), False),
    "TLS of the mesh": ("ISTIO_MUTUAL", ScopeKey("a", redirected=True), False),
    "none": ("DISABLE", ScopeKey("a", redirected=True), False),
}


@pytest.mark.parametrize(("mode", "key", "wanted"), CASES.values(), ids=CASES)
def test_the_filter_of_the_meshs_protocols_is_off(
    mode: str, key: ScopeKey, *, wanted: bool
) -> None:
    model = model_of(
        SERVICE,
        policy(f"{{tls: {{mode: {mode}}}}}"),
        virtual_service(
            "match: [{uri: {prefix: /one}}], " + only(),
            f"route: [{to(weight=1)}, {to(host='other.example', weight=1)}]",
        ),
    )
    services = {each.host: each for each in model.services}
    scope = Scope(key=key, services=services, egress=(), rules=model.destination_rules)

    one, two = scope_routes(
        model.virtual_services.all[0], port=80, scope=scope, default_retries=None
    )

    first, second = two.route.weighted_clusters.clusters
    assert (MESH_ALPN_FILTER in one.typed_per_filter_config) is wanted
    assert (MESH_ALPN_FILTER in first.typed_per_filter_config) is wanted
    assert MESH_ALPN_FILTER not in second.typed_per_filter_config
    assert MESH_ALPN_FILTER not in two.typed_per_filter_config
