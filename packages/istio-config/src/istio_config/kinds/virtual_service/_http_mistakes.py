"""The rules of HTTP routes: what may stand beside what, and the rules of each part."""

from collections.abc import Iterator

from istio_config.kinds.checks import duration_mistake, is_dns_label
from istio_config.kinds.virtual_service._action_mistakes import (
    cors_mistakes,
    fault_mistakes,
    percentage_mistakes,
    redirect_mistakes,
    response_mistakes,
    retry_mistakes,
    rewrite_mistakes,
)
from istio_config.kinds.virtual_service._destination_mistakes import (
    destination_mistakes,
    weighted_mistakes,
)
from istio_config.kinds.virtual_service._header_mistakes import authority_mistakes, header_mistakes
from istio_config.kinds.virtual_service._match_mistakes import match_mistakes
from istio_config.kinds.virtual_service._spec import HttpRoute
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding


def http_route_mistakes(
    route: HttpRoute, path: FieldPath, *, at_gateway: bool, in_delegate: bool
) -> Iterator[Finding]:
    """Yield what is wrong with a route of a VirtualService."""
    yield from _beside(route, path, in_delegate=in_delegate)
    for index, match in enumerate(route.match):
        # A delegate is used where its roots are: gateways are theirs to name.
        yield from match_mistakes(
            match, (*path, "match", index), at_gateway=at_gateway or in_delegate
        )
    yield from weighted_mistakes(route.route, (*path, "route"))
    for index, each in enumerate(route.route):
        place = (*path, "route", index)
        yield from header_mistakes(each.headers, (*place, "headers"))
        yield from authority_mistakes(None, each.headers, place)
    yield from header_mistakes(route.headers, (*path, "headers"))
    yield from authority_mistakes(route.rewrite, route.headers, path)
    yield from _actions(route, path)
    yield from _mirrors(route, path)


def _beside(route: HttpRoute, path: FieldPath, *, in_delegate: bool) -> Iterator[Finding]:
    if route.delegate is not None:
        place = (*path, "delegate")
        if in_delegate:
            yield place, "is not allowed here: a VirtualService without hosts is a delegate itself"
        if not is_dns_label(route.delegate.name) and not all(
            map(is_dns_label, route.delegate.name.split("."))
        ):
            yield (*place, "name"), f'"{route.delegate.name}" is not the name of a VirtualService'
        if route.delegate.namespace and not is_dns_label(route.delegate.namespace):
            yield (*place, "namespace"), f'"{route.delegate.namespace}" is not a namespace'
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


def _actions(route: HttpRoute, path: FieldPath) -> Iterator[Finding]:
    if route.redirect is not None:
        yield from redirect_mistakes(route.redirect, route.match, (*path, "redirect"))
    if route.direct_response is not None:
        yield from response_mistakes(route.direct_response, (*path, "directResponse"))
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


def _mirrors(route: HttpRoute, path: FieldPath) -> Iterator[Finding]:
    if route.mirror is not None and route.mirrors:
        yield (*path, "mirrors"), "can't stand beside mirror: keep one"
    if route.mirror is not None:
        yield from destination_mistakes(route.mirror, (*path, "mirror"))
    if route.mirror_percent is not None and not 0 <= route.mirror_percent <= 100:
        yield (*path, "mirrorPercent"), f"must be from 0 to 100, found {route.mirror_percent}"
    yield from percentage_mistakes(route.mirror_percentage, (*path, "mirrorPercentage"))
    for index, each in enumerate(route.mirrors):
        place = (*path, "mirrors", index)
        yield from destination_mistakes(each.destination, (*place, "destination"))
        yield from percentage_mistakes(each.percentage, (*place, "percentage"))
