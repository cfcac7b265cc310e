"""Puts the routes of delegates in the place of the root routes that name them.

A merged match is met by the requests that meet both matches. Where that can't be said in one match,
as with two regular expressions, they conflict, and the route is dropped, as in Istio
(pilot/pkg/model/virtualservice.go, mergeHTTPMatchRequests).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from istio_config.kinds.virtual_service import HttpMatch, HttpRoute, StringMatch

_ANY = StringMatch()


def merged_match(root: HttpMatch, delegate: HttpMatch) -> HttpMatch | None:
    """Return the match of the requests that meet both; None if they conflict."""
    try:
        return _merged(root, delegate)
    except _ConflictError:
        return None


class _ConflictError(Exception):
    """The two matches have conditions that can't both be in one."""


def _merged(root: HttpMatch, delegate: HttpMatch) -> HttpMatch:
    _expect(root.ignore_uri_case == delegate.ignore_uri_case)
    _expect(root.port is None or delegate.port in (None, root.port))
    _expect(root.source_namespace in ("", delegate.source_namespace))
    _expect(not root.gateways or set(delegate.gateways) <= set(root.gateways))
    labels = {**root.source_labels, **delegate.source_labels}
    _expect(root.source_labels.items() <= labels.items())
    return HttpMatch(
        name=joined_names(root.name, delegate.name),
        uri=_both(root.uri, delegate.uri),
        scheme=_both(root.scheme, delegate.scheme),
        method=_both(root.method, delegate.method),
        authority=_both(root.authority, delegate.authority),
        headers=_united(root.headers, delegate.headers, _narrower),
        without_headers=_united(root.without_headers, delegate.without_headers, _wider),
        query_params=_united(root.query_params, delegate.query_params, _narrower),
        ignore_uri_case=root.ignore_uri_case,
        port=delegate.port or root.port,
        source_labels=labels,
        source_namespace=delegate.source_namespace,
        gateways=delegate.gateways or root.gateways,
        stat_prefix=delegate.stat_prefix or root.stat_prefix,
    )


def joined_names(root: str, delegate: str) -> str:
    """Return the name of a match merged from two."""
    return "-".join(filter(None, (root, delegate)))


def _expect(condition: bool) -> None:  # noqa: FBT001 - reads as a sentence
    if not condition:
        raise _ConflictError


def _both(root: StringMatch | None, delegate: StringMatch | None) -> StringMatch | None:
    if root is None or delegate is None:
        return delegate if root is None else root
    return _narrower(root, delegate)


def _united(
    root: Mapping[str, StringMatch],
    delegate: Mapping[str, StringMatch],
    merge: Callable[[StringMatch, StringMatch], StringMatch],
) -> dict[str, StringMatch]:
    found = {**root, **delegate}
    for name in root.keys() & delegate.keys():
        found[name] = merge(root[name], delegate[name])
    return found


def _narrower(root: StringMatch, delegate: StringMatch) -> StringMatch:
    """Return the condition that holds when both do."""
    if delegate == _ANY:
        return root
    if root != _ANY:
        _expect(_within(delegate, root))
    return delegate


def _wider(root: StringMatch, delegate: StringMatch) -> StringMatch:
    """Return the condition that holds when one of both does, for what must not hold."""
    if _is_presence(root) or _is_presence(delegate):
        return _ANY
    _expect(_within(delegate, root))
    return root


def _is_presence(condition: StringMatch) -> bool:
    return condition == _ANY or condition.regex == "*"


def _within(inner: StringMatch, outer: StringMatch) -> bool:
    """Return whether each text that meets `inner` meets `outer`; with regular expressions: no."""
    if inner.regex is not None or outer.regex is not None:
        return False
    if outer.exact is not None:
        return inner.exact == outer.exact
    text = inner.exact if inner.exact is not None else inner.prefix
    return text is not None and outer.prefix is not None and text.startswith(outer.prefix)


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
        yield _merged_route(root, each, matches) if matches is not None else Dropped(number, index)


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


def _merged_route(root: HttpRoute, delegate: HttpRoute, match: tuple[HttpMatch, ...]) -> HttpRoute:
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
