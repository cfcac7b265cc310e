"""GRPCRoutes as routes of VirtualServices: one for each match of each rule.

A call of gRPC is a request for the path `/SERVICE/METHOD`.
"""

from collections.abc import Iterator

from istio_config import ConfigObject
from istio_config.kinds.gateway_api import (
    GrpcMatch,
    GrpcRouteSpec,
    GrpcRule,
    MatchType,
    MethodMatch,
)
from istio_config.kinds.virtual_service import HttpMatch, HttpRoute, StringMatch
from mesh_configfile import FieldPath
from mesh_model.gateway_api.routes._backends import Resolver
from mesh_model.gateway_api.routes._http_actions import (
    NO_BACKEND,
    destinations,
    headers_of,
    mirrors,
)
from mesh_model.gateway_api.routes._http_rules import value_matches
from mesh_model.gateway_api.routes._precedence import Entry, Rank, entry

_ANY_NAME = "[^/]+"


def grpc_entries(item: ConfigObject, spec: GrpcRouteSpec, resolver: Resolver) -> Iterator[Entry]:
    """Yield the routes of a GRPCRoute, in the order of its rules and matches."""
    for index, rule in enumerate(spec.rules):
        base = _base(rule, resolver, ("spec", "rules", index))
        name = f"{item.namespace}.{item.name}.{rule.name or index}"
        for number, match in enumerate(rule.all_matches):
            route = HttpRoute(
                name=f"{name}.{number}",
                match=(
                    HttpMatch(
                        uri=_uri(match.method),
                        headers=value_matches(match.headers, ignore_case=True),
                    ),
                ),
                route=base.route,
                direct_response=base.direct_response,
                mirrors=base.mirrors,
                headers=base.headers,
            )
            yield entry(item, _rank(match), route, rule=index, match=number)


def _base(rule: GrpcRule, resolver: Resolver, place: FieldPath) -> HttpRoute:
    route = destinations(rule.backend_refs, resolver, place)
    copies = mirrors(rule.filters, resolver, place)
    headers = headers_of(rule.filters)
    if not route:
        return HttpRoute(direct_response=NO_BACKEND, headers=headers)
    return HttpRoute(route=route, mirrors=copies, headers=headers)


def _uri(match: MethodMatch | None) -> StringMatch:
    if match is None:
        return StringMatch(prefix="/")
    service, method = match.service, match.method
    if match.type is MatchType.REGULAR_EXPRESSION:
        return StringMatch(
            regex=f"/{f'(?:{service})' if service else _ANY_NAME}"
            f"/{f'(?:{method})' if method else _ANY_NAME}"
        )
    if service and method:
        return StringMatch(exact=f"/{service}/{method}")
    if service:
        return StringMatch(prefix=f"/{service}/")
    return StringMatch(regex=f"/{_ANY_NAME}/{method}")


def _rank(match: GrpcMatch) -> Rank:
    """Rank by the lengths of service and method; expressions and all calls come last."""
    method, headers = match.method, -len(match.headers)
    if method is None:
        return Rank(3 if not headers else 2, 0, 0, headers, 0)
    is_regex = method.type is MatchType.REGULAR_EXPRESSION
    return Rank(
        1 if is_regex else 0,
        -len(method.service or ""),
        -len(method.method or ""),
        headers,
        0,
    )
