"""The filters of CUSTOM policies: what providers are asked about, and where none can be asked."""

from collections.abc import Callable
from typing import Any

import pytest
from envoy.extensions.filters.http.ext_authz.v3 import ext_authz_pb2 as http_authz_pb2
from envoy.extensions.filters.http.rbac.v3 import rbac_pb2 as http_rbac_pb2
from envoy.extensions.filters.network.ext_authz.v3 import ext_authz_pb2 as network_authz_pb2
from envoy.extensions.filters.network.rbac.v3 import rbac_pb2 as network_rbac_pb2
from google.protobuf.json_format import MessageToDict

from envoy_config.generate.policies._custom import custom_http_filters, custom_network_filters
from envoy_config.plan.policies._authorization import Authorization, authorization_of
from mesh_model import MeshModel, Workload

Build = Callable[..., MeshModel]
WORKLOAD = Workload("a")


def mesh(*providers: str) -> str:
    listed = ", ".join(providers)
    return (
        "apiVersion: mesh.istio.io/v1alpha1\nkind: MeshConfig\n"
        f"spec: {{extensionProviders: [{listed}]}}\n"
    )


def http(name: str, more: str = "", host: str = "authz.b.svc.cluster.local") -> str:
    return f"{{name: {name}, envoyExtAuthzHttp: {{service: {host}, port: 8000{more}}}}}"


def grpc(name: str, more: str = "") -> str:
    host = "authz.b.svc.cluster.local"
    return f"{{name: {name}, envoyExtAuthzGrpc: {{service: {host}, port: 9000{more}}}}}"


def service(more: str = "") -> str:
    return (
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n"
        "metadata: {name: authz, namespace: b}\n"
        f"spec: {{hosts: [authz.b.svc.cluster.local], location: MESH_INTERNAL{more}, "
        "resolution: STATIC, endpoints: [{address: 10.0.0.1}], ports: ["
        "{number: 8000, name: http, protocol: HTTP}, {number: 9000, name: grpc, protocol: GRPC}]}\n"
    )


def policy(provider: str, name: str = "check") -> str:
    return (
        "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\n"
        f"metadata: {{name: {name}, namespace: a}}\nspec: {{action: CUSTOM, "
        f"provider: {{name: {provider}}}, rules: [{{to: [{{operation: {{paths: [/x]}}}}]}}]}}\n"
    )


def authorization(model_of: Build, *documents: str) -> Authorization:
    return authorization_of(WORKLOAD, model_of(*documents))


def unpacked(filters: Any, *kinds: Any) -> list[Any]:
    found = []
    for each, kind in zip(filters, kinds, strict=True):
        message = kind()
        assert each.typed_config.Unpack(message)
        found.append(message)
    return found


def test_provider_is_asked_by_http_about_what_the_rules_match(model_of: Build) -> None:
    more = (
        ", pathPrefix: /check, timeout: 2s, failOpen: true, statusOnError: '503', "
        "includeRequestHeadersInCheck: [x-a, 'x-b-*', '*-c'], "
        "includeAdditionalHeadersInCheck: {x-d: e}, clearRouteCache: true, "
        "headersToUpstreamOnAllow: [x-f], headersToDownstreamOnDeny: [x-g], "
        "headersToDownstreamOnAllow: [x-h], "
        "includeRequestBodyInCheck: {maxRequestBytes: 8, allowPartialMessage: true}"
    )
    found = authorization(model_of, mesh(http("p", more)), service(), policy("p"))
    marking, asking = unpacked(
        custom_http_filters(found), http_rbac_pb2.RBAC, http_authz_pb2.ExtAuthz
    )
    assert not marking.HasField("rules")
    assert marking.shadow_rules.action == marking.shadow_rules.DENY
    assert list(marking.shadow_rules.policies) == ["istio-ext-authz-p-ns[a]-policy[check]-rule[0]"]
    assert marking.shadow_rules_stat_prefix == "istio_ext_authz_"
    assert MessageToDict(asking) == {
        "transportApiVersion": "V3",
        "failureModeAllow": True,
        "clearRouteCache": True,
        "statusOnError": {"code": "ServiceUnavailable"},
        "withRequestBody": {"maxRequestBytes": 8, "allowPartialMessage": True},
        "allowedHeaders": {
            "patterns": [
                {"exact": "x-a", "ignoreCase": True},
                {"prefix": "x-b-", "ignoreCase": True},
                {"suffix": "-c", "ignoreCase": True},
            ]
        },
        "httpService": {
            "pathPrefix": "/check",
            "serverUri": {
                "uri": "http://authz.b.svc.cluster.local:8000",
                "cluster": "outbound|8000||authz.b.svc.cluster.local",
                "timeout": "2s",
            },
            "authorizationRequest": {"headersToAdd": [{"key": "x-d", "value": "e"}]},
            "authorizationResponse": {
                "allowedUpstreamHeaders": {"patterns": [{"exact": "x-f", "ignoreCase": True}]},
                "allowedClientHeaders": {"patterns": [{"exact": "x-g", "ignoreCase": True}]},
                "allowedClientHeadersOnSuccess": {
                    "patterns": [{"exact": "x-h", "ignoreCase": True}]
                },
            },
        },
        "filterEnabledMetadata": {
            "filter": "envoy.filters.http.rbac",
            "path": [{"key": "istio_ext_authz_shadow_effective_policy_id"}],
            "value": {"stringMatch": {"prefix": "istio-ext-authz-p-ns["}},
        },
    }


def test_connections_are_not_asked_about_by_http(model_of: Build) -> None:
    found = authorization(model_of, mesh(http("p")), service(), policy("p"))
    assert custom_network_filters(found) == ()


def test_provider_is_asked_by_grpc_about_requests_and_connections(model_of: Build) -> None:
    found = authorization(model_of, mesh(grpc("p")), service(), policy("p"))
    _, asking = unpacked(custom_http_filters(found), http_rbac_pb2.RBAC, http_authz_pb2.ExtAuthz)
    wanted = {
        "envoyGrpc": {
            "clusterName": "outbound|9000||authz.b.svc.cluster.local",
            "authority": "authz.b.svc.cluster.local",
        },
        "timeout": "600s",
    }
    assert MessageToDict(asking.grpc_service) == wanted
    marking, connection = unpacked(
        custom_network_filters(found), network_rbac_pb2.RBAC, network_authz_pb2.ExtAuthz
    )
    (rule,) = marking.shadow_rules.policies.values()
    assert rule.permissions[0].any  # paths are not known, so the provider is asked about all
    assert MessageToDict(connection.grpc_service) == wanted
    assert connection.filter_enabled_metadata.filter == "envoy.filters.network.rbac"
    assert not connection.failure_mode_allow


UNUSABLE: dict[str, tuple[str, ...]] = {
    "no provider of the name": (mesh(http("q")), service(), policy("p")),
    "the provider is no authorizer": (
        mesh("{name: p, envoyFileAccessLog: {path: /dev/stdout}}"),
        service(),
        policy("p"),
    ),
    "no such service": (mesh(http("p")), policy("p")),
    "no such port": (mesh(http("p").replace("8000", "8001")), service(), policy("p")),
    "the service is not exported": (
        mesh(http("p")),
        service(", exportTo: ['.']"),
        policy("p"),
    ),
    "two providers": (
        mesh(http("p"), http("q")),
        service(),
        policy("p"),
        policy("q", "other"),
    ),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_without_a_provider_to_ask_what_the_rules_match_is_denied(
    case: str, model_of: Build
) -> None:
    found = authorization(model_of, *UNUSABLE[case])
    (denied,) = unpacked(custom_http_filters(found), http_rbac_pb2.RBAC)
    name = "ns[a]-policy[check]-rule[0]-deny-due-to-bad-CUSTOM-action"
    assert name in denied.rules.policies
    assert denied.rules.action == denied.rules.DENY
    assert not denied.HasField("shadow_rules")
    (connections,) = unpacked(custom_network_filters(found), network_rbac_pb2.RBAC)
    assert name in connections.rules.policies


def test_programs_without_a_proxy_deny_as_they_can_ask_no_provider(model_of: Build) -> None:
    found = authorization(model_of, mesh(http("p")), service(), policy("p"))
    (denied,) = unpacked(custom_http_filters(found, proxyless=True), http_rbac_pb2.RBAC)
    assert denied.rules.action == denied.rules.DENY


def test_equal_providers_are_equal_in_the_next_model(model_of: Build) -> None:
    more = ", includeAdditionalHeadersInCheck: {x-d: e}"
    documents = (mesh(http("p", more)), service(), policy("p"))
    one, other = (authorization(model_of, *documents).provider for _ in range(2))
    assert one is not None
    assert (one, hash(one)) == (other, hash(other))
