"""Routes of requests: what may stand beside what, and the sections of each.

Source: Istio's API, networking/v1, and its validation.
"""

from collections.abc import Iterator

from istio_config.kinds._regular_expressions import Expression
from istio_config.kinds.checks import duration_mistake, is_dns_label
from istio_config.kinds.fields import SpecFields
from istio_config.kinds.virtual_service._answers import (
    HttpDirectResponse,
    HttpRedirect,
    direct_response_mistakes,
    direct_response_warnings,
    redirect_mistakes,
)
from istio_config.kinds.virtual_service._cors import CorsPolicy, cors_mistakes, cors_warnings
from istio_config.kinds.virtual_service._destinations import (
    Destination,
    HttpRouteDestination,
    MirrorPolicy,
    Percent,
    destination_mistakes,
    percentage_mistakes,
    weighted_destination_mistakes,
)
from istio_config.kinds.virtual_service._faults import (
    FaultInjection,
    fault_mistakes,
    fault_warnings,
)
from istio_config.kinds.virtual_service._forwarding import (
    HttpRetry,
    HttpRewrite,
    retry_mistakes,
    retry_warnings,
    rewrite_mistakes,
)
from istio_config.kinds.virtual_service._headers import Headers, header_mistakes, names_authority
from istio_config.kinds.virtual_service._matches import HttpMatch, http_match_mistakes
from mesh_configfile import Duration, FieldPath
from mesh_configfile.shapes import Finding


class Delegate(SpecFields, frozen=True):
    """The VirtualService that has the routes in place of this one."""

    name: str = ""
    namespace: str = ""


class HttpRoute(SpecFields, frozen=True):
    """A route: if a request meets any of the matches, this is done with it."""

    name: str = ""
    match: tuple[HttpMatch, ...] = ()
    route: tuple[HttpRouteDestination, ...] = ()
    redirect: HttpRedirect | None = None
    direct_response: HttpDirectResponse | None = None
    delegate: Delegate | None = None
    rewrite: HttpRewrite | None = None
    timeout: Duration | None = None
    retries: HttpRetry | None = None
    fault: FaultInjection | None = None
    mirror: Destination | None = None
    mirrors: tuple[MirrorPolicy, ...] = ()
    mirror_percent: int | None = None
    """Deprecated for `mirrorPercentage`."""
    mirror_percentage: Percent | None = None
    cors_policy: CorsPolicy | None = None
    headers: Headers | None = None


def http_route_mistakes(
    route: HttpRoute, path: FieldPath, *, at_gateway: bool, in_delegate: bool
) -> Iterator[Finding]:
    """Yield what is wrong with a route of a VirtualService."""
    yield from _conflict_mistakes(route, path, in_delegate=in_delegate)
    for index, match in enumerate(route.match):
        # The VirtualServices that delegate say for which gateways the routes of a delegate are.
        yield from http_match_mistakes(
            match, (*path, "match", index), at_gateway=at_gateway or in_delegate
        )
    yield from weighted_destination_mistakes(route.route, (*path, "route"))
    for index, each in enumerate(route.route):
        here = (*path, "route", index)
        yield from header_mistakes(each.headers, (*here, "headers"))
        yield from _authority_mistakes(None, each.headers, here)
    yield from header_mistakes(route.headers, (*path, "headers"))
    yield from _authority_mistakes(route.rewrite, route.headers, path)
    yield from _section_mistakes(route, path)
    yield from _mirror_mistakes(route, path)


def _conflict_mistakes(
    route: HttpRoute, path: FieldPath, *, in_delegate: bool
) -> Iterator[Finding]:
    if route.delegate is not None:
        here = (*path, "delegate")
        if in_delegate:
            yield here, "is not allowed here: a VirtualService without hosts is a delegate itself"
        if not is_dns_label(route.delegate.name) and not all(
            map(is_dns_label, route.delegate.name.split("."))
        ):
            yield (*here, "name"), f'"{route.delegate.name}" is not the name of a VirtualService'
        if route.delegate.namespace and not is_dns_label(route.delegate.namespace):
            yield (*here, "namespace"), f'"{route.delegate.namespace}" is not a namespace'
        for field, given in (
            ("route", bool(route.route)),
            ("redirect", route.redirect is not None),
        ):
            if given:
                yield (*path, field), "can't stand beside delegate, which has the routes"
    elif not route.route and route.redirect is None and route.direct_response is None:
        yield path, "does nothing: give route, redirect or directResponse"
    others = (
        ("route", bool(route.route)),
        ("fault", route.fault is not None),
        ("rewrite", route.rewrite is not None),
    )
    for action, chosen in (
        ("redirect", route.redirect is not None),
        ("directResponse", route.direct_response is not None),
    ):
        for field, given in others if chosen else ():
            if given:
                yield (*path, field), f"can't stand beside {action}"
    if route.redirect is not None and route.direct_response is not None:
        yield (*path, "directResponse"), "can't stand beside redirect"


def _section_mistakes(route: HttpRoute, path: FieldPath) -> Iterator[Finding]:
    if route.redirect is not None:
        yield from redirect_mistakes(route.redirect, route.match, (*path, "redirect"))
    if route.direct_response is not None:
        yield from direct_response_mistakes(route.direct_response, (*path, "directResponse"))
    if route.rewrite is not None:
        yield from rewrite_mistakes(route.rewrite, (*path, "rewrite"))
    # Users write 0s for no timeout, which is the default.
    if route.timeout and (wrong := duration_mistake(route.timeout)) is not None:
        yield (*path, "timeout"), wrong
    if route.retries is not None:
        yield from retry_mistakes(route.retries, (*path, "retries"))
    if route.fault is not None:
        yield from fault_mistakes(route.fault, (*path, "fault"))
    if route.cors_policy is not None:
        yield from cors_mistakes(route.cors_policy, (*path, "corsPolicy"))


def _mirror_mistakes(route: HttpRoute, path: FieldPath) -> Iterator[Finding]:
    if route.mirror is not None and route.mirrors:
        yield (*path, "mirrors"), "can't stand beside mirror: keep one"
    if route.mirror is not None:
        yield from destination_mistakes(route.mirror, (*path, "mirror"))
    if route.mirror_percent is not None and not 0 <= route.mirror_percent <= 100:
        yield (*path, "mirrorPercent"), f"must be from 0 to 100, found {route.mirror_percent}"
    yield from percentage_mistakes(route.mirror_percentage, (*path, "mirrorPercentage"))
    for index, each in enumerate(route.mirrors):
        here = (*path, "mirrors", index)
        yield from destination_mistakes(each.destination, (*here, "destination"))
        yield from percentage_mistakes(each.percentage, (*here, "percentage"))


def _authority_mistakes(
    rewrite: HttpRewrite | None, headers: Headers | None, path: FieldPath
) -> Iterator[Finding]:
    """Yield every field but the first that sets the authority of one request.

    Istio's validation allows one (validateAuthorityRewrite): more would be ambiguous.
    """
    taken = "rewrite.authority" if rewrite is not None and rewrite.authority else None
    if headers is None or headers.request is None:
        return
    for operation, values in (("set", headers.request.set), ("add", headers.request.add)):
        for name in filter(names_authority, values):
            if taken is not None:
                yield (
                    (*path, "headers", "request", operation, name),
                    f"sets the authority, which {taken} sets too: keep one",
                )
            taken = taken or f"headers.request.{operation}.{name}"


def http_route_warnings(route: HttpRoute, path: FieldPath) -> Iterator[Finding]:
    """Yield what is probably not meant in a valid route."""
    for index, match in enumerate(route.match):
        if match.gateways and (match.source_labels or match.source_namespace):
            field = "sourceLabels" if match.source_labels else "sourceNamespace"
            yield (
                (*path, "match", index, field),
                "is not looked at beside gateways: leave out one of them",
            )
    if route.fault is not None:
        yield from fault_warnings(route.fault, (*path, "fault"))
    if route.retries is not None:
        yield from retry_warnings(route.retries, (*path, "retries"))
    yield from _mirror_warnings(route, path)
    if route.cors_policy is not None:
        yield from cors_warnings(route.cors_policy, (*path, "corsPolicy"))
        if route.direct_response is not None:
            yield (*path, "corsPolicy"), "has no effect on direct responses"
    if route.direct_response is not None:
        yield from direct_response_warnings(route.direct_response, (*path, "directResponse"))
    yield from _unused_warnings(route, path)


def _mirror_warnings(route: HttpRoute, path: FieldPath) -> Iterator[Finding]:
    if route.mirror_percent is not None:
        yield (*path, "mirrorPercent"), "is deprecated: use mirrorPercentage"
    if route.mirror is None and (
        route.mirror_percentage is not None or route.mirror_percent is not None
    ):
        yield path, "has a percentage of requests to mirror, and no mirror"


def _unused_warnings(route: HttpRoute, path: FieldPath) -> Iterator[Finding]:
    """Yield the fields that concern only forwarded requests, where the proxy itself answers."""
    if route.redirect is None and route.direct_response is None:
        return
    answer = "redirect" if route.redirect is not None else "directResponse"
    for field, given in (
        ("timeout", route.timeout is not None),
        ("retries", route.retries is not None),
        ("mirror", route.mirror is not None),
        ("mirrors", bool(route.mirrors)),
    ):
        if given:
            yield (*path, field), f"has no effect beside {answer}"


def http_route_expressions(route: HttpRoute, path: FieldPath) -> Iterator[Expression]:
    """Yield the regular expressions of a route, and how often Envoy compiles each."""
    for index, match in enumerate(route.match):
        yield from _match_expressions(match, (*path, "match", index))
    # Envoy has a route for each match, with all that is done then.
    times = max(1, len(route.match))
    if route.rewrite is not None and route.rewrite.uri_regex_rewrite is not None:
        text = route.rewrite.uri_regex_rewrite.match
        here = (*path, "rewrite", "uriRegexRewrite", "match")
        yield Expression(here, text, times)
    if route.cors_policy is not None:
        for index, origin in enumerate(route.cors_policy.allow_origins):
            if origin.regex is not None:
                here = (*path, "corsPolicy", "allowOrigins", index, "regex")
                yield Expression(here, origin.regex, times)


def _match_expressions(match: HttpMatch, path: FieldPath) -> Iterator[Expression]:
    for field, condition in (
        ("uri", match.uri),
        ("scheme", match.scheme),
        ("method", match.method),
        ("authority", match.authority),
    ):
        if condition is not None and condition.regex is not None:
            text = condition.regex
            yield Expression((*path, field, "regex"), text)
    for field, conditions in (
        ("headers", match.headers),
        ("withoutHeaders", match.without_headers),
        ("queryParams", match.query_params),
    ):
        for name, condition in conditions.items():
            if condition.regex is not None:
                text = condition.regex
                yield Expression((*path, field, name, "regex"), text)
