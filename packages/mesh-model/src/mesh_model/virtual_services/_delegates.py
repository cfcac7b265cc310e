"""Puts the routes of delegates in the place of the root routes that name them."""

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from istio_config.kinds.virtual_service import HttpMatch, HttpRoute
from mesh_model.virtual_services._merged_matches import joined_names, merged_match

_T = TypeVar("_T")


class Dropped(NamedTuple):
    """A route of a delegate that has no match in common with its root's route, by their numbers."""

    root_route: int
    delegate_route: int


def delegated_routes(
    number: int, root: HttpRoute, delegate: tuple[HttpRoute, ...]
) -> Iterator[HttpRoute | Dropped]:
    """Yield what a root's route becomes: its delegate's routes, and those that are left out.

    number: of the root's route, from 0.
    """
    for index, each in enumerate(delegate):
        matches = _matches(root.match, each.match)
        yield _merged(root, each, matches) if matches is not None else Dropped(number, index)


def _matches(
    root: tuple[HttpMatch, ...], delegate: tuple[HttpMatch, ...]
) -> tuple[HttpMatch, ...] | None:
    """Multiply two lists of matches; None if one of the delegate's conflicts with all."""
    if not root or not delegate:
        return root or delegate
    found: list[HttpMatch] = []
    for match in delegate:
        merged = [both for each in root if (both := merged_match(each, match)) is not None]
        if not merged:
            return None
        found += merged
    return tuple(found)


def _merged(root: HttpRoute, delegate: HttpRoute, match: tuple[HttpMatch, ...]) -> HttpRoute:
    return HttpRoute(
        name=joined_names(root.name, delegate.name),
        match=match,
        route=delegate.route,
        redirect=delegate.redirect,
        direct_response=_first(delegate.direct_response, root.direct_response),
        rewrite=_first(delegate.rewrite, root.rewrite),
        timeout=_first(delegate.timeout, root.timeout),
        retries=_first(delegate.retries, root.retries),
        fault=_first(delegate.fault, root.fault),
        mirror=_first(delegate.mirror, root.mirror),
        mirrors=delegate.mirrors or root.mirrors,
        mirror_percent=_first(delegate.mirror_percent, root.mirror_percent),
        mirror_percentage=_first(delegate.mirror_percentage, root.mirror_percentage),
        cors_policy=_first(delegate.cors_policy, root.cors_policy),
        headers=_first(delegate.headers, root.headers),
    )


def _first(delegate: _T | None, root: _T | None) -> _T | None:
    return delegate if delegate is not None else root
