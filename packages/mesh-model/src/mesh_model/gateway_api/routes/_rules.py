"""HTTPRoutes and GRPCRoutes as routes of VirtualServices: one for each match of each rule."""

from collections.abc import Iterator
from typing import NamedTuple

from istio_config import ConfigObject
from istio_config.kinds.gateway_api import (
    GrpcMatch,
    GrpcRouteSpec,
    GrpcRule,
    HttpMatch,
    HttpRouteSpec,
    HttpRule,
    MatchType,
    MethodMatch,
    PathMatch,
    PathType,
    Redirect,
    UrlRewrite,
    ValueMatch,
)
from istio_config.kinds.virtual_service import HttpMatch as Match
from istio_config.kinds.virtual_service import (
    HttpRewrite,
    HttpRoute,
    RegexRewrite,
    StringMatch,
)
from mesh_configfile import FieldPath
from mesh_model.gateway_api.routes._backends import Resolver
from mesh_model.gateway_api.routes._http_actions import (
    NO_BACKEND,
    cors_of,
    destinations,
    headers_of,
    mirrors,
    redirect_of,
    retries_of,
    timeout_of,
)
from mesh_model.gateway_api.routes._precedence import Entry, Rank, entry, rank_of

_WHOLE_PATH = "^/.*"


def http_entries(item: ConfigObject, spec: HttpRouteSpec, resolver: Resolver) -> Iterator[Entry]:
    """Yield the routes of an HTTPRoute, in the order of its rules and matches."""
    for index, rule in enumerate(spec.rules):
        path: FieldPath = ("spec", "rules", index)
        actions = _Actions.build(rule, resolver, path)
        name = f"{item.namespace}.{item.name}.{rule.name or index}"
        for number, match in enumerate(rule.all_matches):
            rank = rank_of(_match(match, _uri(match.path)))
            for part in _parts(match.path, actions.new_prefix):
                route = actions.route(f"{name}.{number}", _match(match, part.uri), part.rewrite)
                yield entry(item, rank, route, rule=index, match=number)


class _Part(NamedTuple):
    """The condition on the path, and what its matched part is replaced by; None: it stays."""

    uri: StringMatch
    rewrite: str | None


def _parts(path: PathMatch, new_prefix: str | None) -> tuple[_Part, ...]:
    """Return the routes of a match: two, where a prefix is taken away.

    Envoy puts nothing between the new prefix and the rest of the path, which for an empty one
    would leave two slashes or none.
    """
    uri = _uri(path)
    if new_prefix is None or uri.prefix is None:
        return (_Part(uri, None),)
    replaced = new_prefix.rstrip("/")
    if uri.prefix == "/":
        return (_Part(uri, f"{replaced}/" if replaced else None),)
    if replaced:
        return (_Part(uri, replaced),)
    return (
        _Part(StringMatch(exact=uri.prefix), "/"),
        _Part(StringMatch(prefix=f"{uri.prefix}/"), "/"),
    )


def _uri(path: PathMatch) -> StringMatch:
    match path.type:
        case PathType.EXACT:
            return StringMatch(exact=path.value)
        case PathType.PATH_PREFIX:
            return StringMatch(prefix=path.value.rstrip("/") or "/")
        case PathType.REGULAR_EXPRESSION:
            return StringMatch(regex=path.value)


def _match(match: HttpMatch, uri: StringMatch) -> Match:
    return Match(
        uri=uri,
        method=StringMatch(exact=match.method) if match.method is not None else None,
        headers=value_matches(match.headers, ignore_case=True),
        query_params=value_matches(match.query_params),
    )


def value_matches(
    matches: tuple[ValueMatch, ...], *, ignore_case: bool = False
) -> dict[str, StringMatch]:
    """Return conditions by name; of several on one header the first counts."""
    found: dict[str, StringMatch] = {}
    known: set[str] = set()
    for each in matches:
        name = each.name.lower() if ignore_case else each.name
        if name in known:
            continue
        known.add(name)
        if each.type is MatchType.REGULAR_EXPRESSION:
            found[name] = StringMatch(regex=each.value)
        else:
            found[name] = StringMatch(exact=each.value)
    return found


class _Actions(NamedTuple):
    """The actions of a rule, for all of its matches."""

    base: HttpRoute
    redirect: Redirect | None
    rewrite: UrlRewrite | None

    @classmethod
    def build(cls, rule: HttpRule, resolver: Resolver, path: FieldPath) -> "_Actions":
        redirect = next(
            (each.request_redirect for each in rule.filters if each.request_redirect), None
        )
        rewrite = next((each.url_rewrite for each in rule.filters if each.url_rewrite), None)
        cors = next((each.cors for each in rule.filters if each.cors), None)
        route = destinations(rule.backend_refs, resolver, path)
        copies = mirrors(rule.filters, resolver, path)
        headers = headers_of(rule.filters)
        if redirect is not None:
            return cls(HttpRoute(headers=headers), redirect, None)
        if not route:
            return cls(HttpRoute(direct_response=NO_BACKEND, headers=headers), None, None)
        base = HttpRoute(
            route=route,
            timeout=timeout_of(rule),
            retries=retries_of(rule),
            mirrors=copies,
            cors_policy=cors_of(cors) if cors is not None else None,
            headers=headers,
        )
        return cls(base, None, rewrite)

    @property
    def new_prefix(self) -> str | None:
        """The prefix that the one matched is replaced by."""
        change = self.redirect or self.rewrite
        if change is None or change.path is None:
            return None
        return change.path.replace_prefix_match

    def route(self, name: str, match: Match, rewrite: str | None) -> HttpRoute:
        """Return the route of a match; rewrite: what its matched part is replaced by."""
        base = self.base
        return HttpRoute(
            name=name,
            match=(match,),
            route=base.route,
            redirect=redirect_of(self.redirect, rewrite) if self.redirect is not None else None,
            direct_response=base.direct_response,
            rewrite=_rewrite(self.rewrite, rewrite) if self.rewrite is not None else None,
            timeout=base.timeout,
            retries=base.retries,
            mirrors=base.mirrors,
            cors_policy=base.cors_policy,
            headers=base.headers,
        )


def _rewrite(change: UrlRewrite, prefix: str | None) -> HttpRewrite | None:
    whole = change.path.replace_full_path if change.path is not None else None
    found = HttpRewrite(
        uri=prefix or "",
        authority=change.hostname or "",
        uri_regex_rewrite=RegexRewrite(
            match=_WHOLE_PATH, rewrite=(whole or "/").replace("\\", "\\\\")
        )
        if whole is not None
        else None,
    )
    return found if found != HttpRewrite() else None


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
                    Match(
                        uri=_method_uri(match.method),
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


def _method_uri(match: MethodMatch | None) -> StringMatch:
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
