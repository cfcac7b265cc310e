"""Envoy's routes of the Gateway API: prefixes of whole path elements, 500 for missing clusters."""

from typing import Any

import pytest
from google.protobuf import json_format

from envoy_config.generate.routes._http_routes import RoutePlace, http_routes
from envoy_config.plan.virtual_hosts._targets import Target
from gateway_api_meshes import virtual_services_of

GATEWAY = """
kind: Gateway
metadata: {name: gw}
spec: {gatewayClassName: istio, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: HTTPRoute
metadata: {name: r}
spec: {parentRefs: [{name: gw}], rules: [{matches: [{path: %s}], backendRefs: [%s]}]}
"""


class AnyTarget(dict[Any, Target]):
    def __missing__(self, key: Any) -> Target:
        return Target(f"outbound|{key.port_number}||{key.host}")


def route_of(path: str, backend: str = "{name: cart, port: 80}") -> dict[str, Any]:
    found = virtual_services_of(GATEWAY % (path, backend))[0]
    (route,) = http_routes(
        found, RoutePlace(80, found.gateways[0]), AnyTarget(), default_retries=None
    )
    return json_format.MessageToDict(route, preserving_proto_field_name=True)


@pytest.mark.parametrize(
    ("path", "wanted", "operation"),
    [
        ("{value: /a}", {"path_separated_prefix": "/a"}, "/a/*"),
        ("{value: /}", {"prefix": "/"}, "/*"),
        ("{type: Exact, value: /a}", {"path": "/a"}, "/a"),
    ],
)
def test_prefixes_are_of_whole_path_elements(
    path: str, wanted: dict[str, str], operation: str
) -> None:
    route = route_of(path)
    assert route["match"] == wanted
    assert route["decorator"]["operation"] == f"cart.shop.svc.cluster.local:80{operation}"


def test_requests_for_a_cluster_that_is_not_there_are_answered_with_500() -> None:
    route = route_of("{value: /}", "{name: cart, port: 80}, {name: gone, port: 80}")["route"]
    assert route["cluster_not_found_response_code"] == "INTERNAL_SERVER_ERROR"
    assert [each["name"] for each in route["weighted_clusters"]["clusters"]] == [
        "outbound|80||cart.shop.svc.cluster.local",
        "outbound|80||gone.shop.invalid",
    ]
