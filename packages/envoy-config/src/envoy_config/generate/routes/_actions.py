"""Actions of routes: requests are redirected, answered, or sent to clusters."""

from base64 import b64decode
from collections.abc import Iterator

from envoy.type.matcher.v3 import regex_pb2

from envoy_config.generate._hash_policies import hash_policies
from envoy_config.generate._messages import (
    base_pb2,
    duration,
    packed,
    route_components_pb2,
    wrappers_pb2,
)
from envoy_config.generate.routes._filter_settings import fraction
from envoy_config.generate.routes._headers import authority_of, change_headers
from envoy_config.generate.routes._matches import regex
from envoy_config.generate.routes._retries import retry_policy
from envoy_config.generate.routes._virtual_hosts import onward_route
from envoy_config.plan import _envoy_names as names
from envoy_config.plan.virtual_hosts._targets import Target, Targets
from istio_config.kinds.virtual_service import (
    DerivePort,
    Destination,
    HttpDirectResponse,
    HttpRedirect,
    HttpRetry,
    HttpRewrite,
    HttpRoute,
)

_Redirect = route_components_pb2.RedirectAction
_CODES = {
    301: _Redirect.RedirectResponseCode.MOVED_PERMANENTLY,
    302: _Redirect.RedirectResponseCode.FOUND,
    303: _Redirect.RedirectResponseCode.SEE_OTHER,
    307: _Redirect.RedirectResponseCode.TEMPORARY_REDIRECT,
    308: _Redirect.RedirectResponseCode.PERMANENT_REDIRECT,
}
_USUAL_PORTS = {"http": 80, "https": 443}


def redirect_action(
    redirect: HttpRedirect, *, port: int, is_tls: bool
) -> route_components_pb2.RedirectAction | None:
    """Make a redirect of requests to a port; None if Envoy has no such code."""
    code = _CODES.get(redirect.redirect_code or 301)
    if code is None:
        return None
    action = _Redirect(response_code=code)
    if redirect.uri:
        action.path_redirect = redirect.uri
    elif redirect.prefix_rewrite:
        action.prefix_rewrite = redirect.prefix_rewrite
    action.host_redirect = redirect.authority
    if redirect.scheme:
        action.scheme_redirect = redirect.scheme
    number = redirect.port or 0
    if redirect.derive_port is DerivePort.FROM_REQUEST_PORT:
        number = port
    if number != _USUAL_PORTS[redirect.scheme or ("https" if is_tls else "http")]:
        action.port_redirect = number
    return action


def direct_response(
    response: HttpDirectResponse,
) -> route_components_pb2.DirectResponseAction:
    """Make an answer of the proxy's own."""
    action = route_components_pb2.DirectResponseAction(status=response.status)
    if response.body is not None:
        body = response.body
        if body.bytes is not None:
            action.body.CopyFrom(base_pb2.DataSource(inline_bytes=b64decode(body.bytes)))
        else:
            action.body.CopyFrom(base_pb2.DataSource(inline_string=body.string or ""))
    return action


def set_clusters(
    message: route_components_pb2.Route,
    route: HttpRoute,
    targets: Targets,
    *,
    default_retries: HttpRetry | None,
) -> None:
    """Make a route lead to the clusters of its destinations."""
    action = message.route
    action.timeout.CopyFrom(duration(route.timeout or 0))
    if not route.timeout:
        # A time limit in a gRPC request holds as it is. Beside it Envoy would have no timeout.
        action.max_stream_duration.grpc_timeout_header_max.CopyFrom(duration(0))
    chosen = [targets[each.destination] for each in route.route if each.destination is not None]
    for each in dict.fromkeys(each.hashing for each in chosen):
        action.hash_policy.extend(hash_policies(each))
    retries = retry_policy(route.retries, default=default_retries, hashed=bool(action.hash_policy))
    if retries is not None:
        action.retry_policy.CopyFrom(retries)
    _rewrite(action, route.rewrite)
    authority = authority_of(route.headers)
    if not action.host_rewrite_literal and authority:
        action.host_rewrite_literal = authority
    if len(route.route) == 1:
        action.cluster = chosen[0].cluster
        if chosen[0].own_alpn:
            keep_own_alpn(message)
        change_headers(message, route.route[0].headers)
        authority = authority_of(route.route[0].headers)
        if not action.host_rewrite_literal and authority:
            action.host_rewrite_literal = authority
    else:
        _set_weighted(action, route, targets)
    action.request_mirror_policies.extend(_mirrors(route, targets))


def _set_weighted(
    action: route_components_pb2.RouteAction, route: HttpRoute, targets: Targets
) -> None:
    for each in route.route:
        if each.weight <= 0 or each.destination is None:
            continue
        target = targets[each.destination]
        cluster = action.weighted_clusters.clusters.add(
            name=target.cluster, weight=wrappers_pb2.UInt32Value(value=each.weight)
        )
        if target.own_alpn:
            keep_own_alpn(cluster)
        change_headers(cluster, each.headers)
        authority = authority_of(each.headers)
        if authority and not action.host_rewrite_literal:
            cluster.host_rewrite_literal = authority


def _rewrite(action: route_components_pb2.RouteAction, rewrite: HttpRewrite | None) -> None:
    if rewrite is None:
        return
    if rewrite.uri:
        action.prefix_rewrite = rewrite.uri
    elif rewrite.uri_regex_rewrite is not None:
        action.regex_rewrite.CopyFrom(
            regex_pb2.RegexMatchAndSubstitute(
                pattern=regex(rewrite.uri_regex_rewrite.match),
                substitution=rewrite.uri_regex_rewrite.rewrite,
            )
        )
    if rewrite.authority:
        action.host_rewrite_literal = rewrite.authority


def _mirrors(
    route: HttpRoute, targets: Targets
) -> Iterator[route_components_pb2.RouteAction.RequestMirrorPolicy]:
    copies: list[tuple[Destination | None, float]] = []
    if route.mirror is not None:
        share: float = 100 if route.mirror_percent is None else route.mirror_percent
        if route.mirror_percentage is not None:
            share = route.mirror_percentage.value
        copies.append((route.mirror, share))
    for each in route.mirrors:
        share = each.percentage.value if each.percentage is not None else 100
        copies.append((each.destination, share))
    for destination, share in copies:
        if destination is not None and share > 0:
            yield route_components_pb2.RouteAction.RequestMirrorPolicy(
                cluster=targets[destination].cluster,
                runtime_fraction=base_pb2.RuntimeFractionalPercent(default_value=fraction(share)),
                trace_sampled=wrappers_pb2.BoolValue(value=False),
                disable_shadow_host_suffix_append=True,
            )


def default_route(
    host: str, port: int, target: Target, *, retries: HttpRetry | None
) -> route_components_pb2.Route:
    """Make the route of a port that no VirtualService has; retries: the mesh's, if any."""
    route = onward_route(target.cluster)
    route.route.hash_policy.extend(hash_policies(target.hashing))
    policy = retry_policy(None, default=retries, hashed=bool(route.route.hash_policy))
    if policy is not None:
        route.route.retry_policy.CopyFrom(policy)
    if target.own_alpn:
        keep_own_alpn(route)
    route.decorator.operation = f"{host}:{port}/*"
    return route


def keep_own_alpn(
    message: route_components_pb2.Route | route_components_pb2.WeightedCluster.ClusterWeight,
) -> None:
    """Let a route, or one of its clusters, offer the protocols in TLS that the cluster has.

    Servers outside the mesh may know no others. Other requests offer the mesh's own, which a filter
    of the listener sets; it is switched off.
    """
    message.typed_per_filter_config[names.MESH_ALPN_FILTER].CopyFrom(
        packed(route_components_pb2.FilterConfig(disabled=True))
    )
