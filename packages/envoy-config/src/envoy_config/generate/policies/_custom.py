"""The filters of CUSTOM policies: those that ask an external provider (`ext_authz`).

The rules stand in RBAC as shadow rules, which decide nothing: what they match is noted in metadata,
and the provider is asked about that alone. Where it can't be asked they are enforced, as denials.
"""

from collections.abc import Iterable
from typing import cast

from envoy.config.rbac.v3 import rbac_pb2
from envoy.extensions.filters.http.ext_authz.v3 import ext_authz_pb2 as http_authz_pb2
from envoy.extensions.filters.http.rbac.v3 import rbac_pb2 as http_rbac_pb2
from envoy.extensions.filters.network.ext_authz.v3 import ext_authz_pb2 as network_authz_pb2
from envoy.extensions.filters.network.rbac.v3 import rbac_pb2 as network_rbac_pb2
from envoy.type.matcher.v3 import metadata_pb2, string_pb2, value_pb2
from envoy.type.v3 import http_status_pb2

from envoy_config.generate._filters import http_filter, network_filter
from envoy_config.generate._messages import (
    base_pb2,
    config_source_pb2,
    duration,
    grpc_service_pb2,
    http_connection_manager_pb2,
    listener_components_pb2,
)
from envoy_config.generate.policies._rbac_rules import EnforcementPoint
from envoy_config.generate.policies._rbac_values import metadata
from envoy_config.generate.policies._rules import HTTP_RBAC, NETWORK_RBAC, rules_of
from envoy_config.plan.policies._authorization import Authorization, Provider
from istio_config.kinds.authorization_policy import Action
from istio_config.kinds.mesh_config.providers import (
    GrpcAuthorizer,
    HttpAuthorizer,
    RequestBodyInCheck,
)
from mesh_configfile import Duration

HTTP_AUTHZ, NETWORK_AUTHZ = "envoy.filters.http.ext_authz", "envoy.filters.network.ext_authz"
_SHADOW = "istio_ext_authz_"
_MATCHED = f"{_SHADOW}shadow_effective_policy_id"
_UNUSABLE = "-deny-due-to-bad-CUSTOM-action"
_TIMEOUT = Duration(600)
_V3 = config_source_pb2.ApiVersion.V3


def custom_http_filters(
    authorization: Authorization, *, proxyless: bool = False
) -> tuple[http_connection_manager_pb2.HttpFilter, ...]:
    """Make the filters that ask about requests; programs without a proxy can't ask."""
    point = EnforcementPoint.PROXYLESS if proxyless else EnforcementPoint.REQUESTS_OF_ENVOY
    if not authorization.of_action(Action.CUSTOM):
        return ()
    if authorization.provider is None or proxyless:
        denied = http_rbac_pb2.RBAC(rules=_denying_rules(authorization, point))
        return (http_filter(HTTP_RBAC, denied),)
    provider = authorization.provider
    marking = http_rbac_pb2.RBAC(
        shadow_rules=_shadow_rules(authorization, provider, point), shadow_rules_stat_prefix=_SHADOW
    )
    asking = _http_check(provider)
    return (http_filter(HTTP_RBAC, marking), http_filter(HTTP_AUTHZ, asking))


def custom_network_filters(
    authorization: Authorization,
) -> tuple[listener_components_pb2.Filter, ...]:
    """Make the filters that ask about connections: providers that speak HTTP are not asked."""
    if not authorization.of_action(Action.CUSTOM):
        return ()
    if authorization.provider is None:
        rules = _denying_rules(authorization, EnforcementPoint.CONNECTIONS)
        denied = network_rbac_pb2.RBAC(rules=rules, stat_prefix="tcp.")
        return (network_filter(NETWORK_RBAC, denied),)
    provider = authorization.provider
    authorizer = provider.authorizer
    if not isinstance(authorizer, GrpcAuthorizer):
        return ()
    marking = network_rbac_pb2.RBAC(
        shadow_rules=_shadow_rules(authorization, provider, EnforcementPoint.CONNECTIONS),
        shadow_rules_stat_prefix=_SHADOW,
        stat_prefix="tcp.",
    )
    asking = network_authz_pb2.ExtAuthz(
        stat_prefix="tcp.",
        grpc_service=_grpc_service(provider, authorizer),
        transport_api_version=_V3,
        failure_mode_allow=authorizer.fail_open,
        filter_enabled_metadata=_is_marked(NETWORK_RBAC, provider),
    )
    return (network_filter(NETWORK_RBAC, marking), network_filter(NETWORK_AUTHZ, asking))


def _shadow_rules(
    authorization: Authorization, provider: Provider, point: EnforcementPoint
) -> rbac_pb2.RBAC:
    policies = authorization.of_action(Action.CUSTOM)
    return rules_of(
        rbac_pb2.RBAC.DENY, policies, authorization.trust_domains, point, before=_prefix(provider)
    )


def _denying_rules(authorization: Authorization, point: EnforcementPoint) -> rbac_pb2.RBAC:
    policies = authorization.of_action(Action.CUSTOM)
    return rules_of(
        rbac_pb2.RBAC.DENY, policies, authorization.trust_domains, point, after=_UNUSABLE
    )


def _prefix(provider: Provider) -> str:
    return f"istio-ext-authz-{provider.name}-"


def _is_marked(filter_name: str, provider: Provider) -> metadata_pb2.MetadataMatcher:
    # With the bracket, no other provider's name begins like this one.
    matcher = string_pb2.StringMatcher(prefix=f"{_prefix(provider)}ns[")
    return metadata(filter_name, (_MATCHED,), value_pb2.ValueMatcher(string_match=matcher))


def _http_check(provider: Provider) -> http_authz_pb2.ExtAuthz:
    authorizer = provider.authorizer
    check = http_authz_pb2.ExtAuthz(
        transport_api_version=_V3,
        failure_mode_allow=authorizer.fail_open,
        clear_route_cache=authorizer.clear_route_cache,
        filter_enabled_metadata=_is_marked(HTTP_RBAC, provider),
    )
    if authorizer.status_on_error:
        code = cast("http_status_pb2.StatusCode.ValueType", int(authorizer.status_on_error))
        check.status_on_error.CopyFrom(http_status_pb2.HttpStatus(code=code))
    if authorizer.include_request_body_in_check is not None:
        check.with_request_body.CopyFrom(_body(authorizer.include_request_body_in_check))
    if isinstance(authorizer, GrpcAuthorizer):
        check.grpc_service.CopyFrom(_grpc_service(provider, authorizer))
        return check
    check.http_service.CopyFrom(_http_service(provider, authorizer))
    if authorizer.request_headers:
        check.allowed_headers.CopyFrom(_headers(authorizer.request_headers))
    return check


def _grpc_service(provider: Provider, authorizer: GrpcAuthorizer) -> grpc_service_pb2.GrpcService:
    return grpc_service_pb2.GrpcService(
        envoy_grpc=grpc_service_pb2.GrpcService.EnvoyGrpc(
            cluster_name=provider.service.cluster, authority=provider.service.authority
        ),
        timeout=duration(authorizer.timeout or _TIMEOUT),
    )


def _http_service(provider: Provider, authorizer: HttpAuthorizer) -> http_authz_pb2.HttpService:
    uri = f"http://{provider.service.authority}:{authorizer.port}"
    service = http_authz_pb2.HttpService(path_prefix=authorizer.path_prefix)
    service.server_uri.uri = uri
    service.server_uri.cluster = provider.service.cluster
    service.server_uri.timeout.CopyFrom(duration(authorizer.timeout or _TIMEOUT))
    added = authorizer.include_additional_headers_in_check
    if added:
        service.authorization_request.headers_to_add.extend(
            base_pb2.HeaderValue(key=name, value=added[name]) for name in sorted(added)
        )
    response = service.authorization_response
    for field, names in (
        (response.allowed_upstream_headers, authorizer.headers_to_upstream_on_allow),
        (response.allowed_client_headers, authorizer.headers_to_downstream_on_deny),
        (response.allowed_client_headers_on_success, authorizer.headers_to_downstream_on_allow),
    ):
        if names:
            field.CopyFrom(_headers(names))
    return service


def _headers(names: Iterable[str]) -> string_pb2.ListStringMatcher:
    return string_pb2.ListStringMatcher(patterns=[_header(each) for each in names])


def _header(name: str) -> string_pb2.StringMatcher:
    if name.endswith("*"):
        return string_pb2.StringMatcher(prefix=name[:-1], ignore_case=True)
    if name.startswith("*"):
        return string_pb2.StringMatcher(suffix=name[1:], ignore_case=True)
    return string_pb2.StringMatcher(exact=name, ignore_case=True)


def _body(body: RequestBodyInCheck) -> http_authz_pb2.BufferSettings:
    return http_authz_pb2.BufferSettings(
        max_request_bytes=body.max_request_bytes,
        allow_partial_message=body.allow_partial_message,
        pack_as_bytes=body.pack_as_bytes,
    )
