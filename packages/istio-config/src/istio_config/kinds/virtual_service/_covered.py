"""Finds matches of requests that an earlier match leaves nothing to.

Earlier matches are looked up by their paths, so that long lists cost little.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from istio_config.kinds.virtual_service._matches import HttpMatch, StringMatch
from istio_config.kinds.virtual_service._spec import HttpRoute

_EVERYTHING = HttpMatch()
_PATH_REGEXES_OF_ALL = (".*", "/.*")


class Place(NamedTuple):
    """The numbers of a route and of its match, from 0; no match: the route has none."""

    rule: int
    match: int | None


class Covered(NamedTuple):
    """A match that is never reached, and the earlier one that takes all its requests."""

    place: Place
    by: Place


def covered_matches(routes: tuple[HttpRoute, ...]) -> Iterator[Covered]:
    """Yield the matches that are never reached."""
    earlier: dict[tuple[str, str], list[tuple[Place, HttpMatch]]] = {}
    for rule, route in enumerate(routes):
        matches: tuple[tuple[int | None, HttpMatch], ...] = tuple(enumerate(route.match))
        for index, match in matches or ((None, _EVERYTHING),):
            place = Place(rule, index)
            by = next(
                (
                    known
                    for key in _keys_that_cover(match)
                    for known, other in earlier.get(key, ())
                    if _covers(other, match)
                ),
                None,
            )
            if by is not None:
                yield Covered(place, by)
            else:
                earlier.setdefault(_key(match), []).append((place, match))


def is_catch_all(match: HttpMatch) -> bool:
    """Return whether every request of the proxies that the match is for meets it."""
    return _key(match) == _ALL and not (
        match.headers
        or match.without_headers
        or match.query_params
        or match.method is not None
        or match.scheme is not None
        or match.authority is not None
    )


_ALL = ("", "")


def _key(match: HttpMatch) -> tuple[str, str]:
    uri = match.uri
    if uri is None or uri == StringMatch() or uri.regex in _PATH_REGEXES_OF_ALL:
        return _ALL
    if uri.regex is not None:
        return "regex", uri.regex
    case = "i" if match.ignore_uri_case else ""
    kind, text = ("exact", uri.exact) if uri.exact is not None else ("prefix", uri.prefix)
    if kind == "prefix" and text == "/":
        return _ALL
    return kind + case, (text or "").lower() if case else text or ""


def _keys_that_cover(match: HttpMatch) -> Iterator[tuple[str, str]]:
    key = _key(match)
    yield _ALL
    if key == _ALL:
        return
    kind, text = key
    yield key
    if kind == "regex":
        return
    lower = text.lower()
    if kind == "exact":
        yield "exacti", lower
    for end in range(1, len(text) + 1):
        yield "prefixi", lower[:end]
        if not kind.endswith("i"):
            yield "prefix", text[:end]


def _covers(earlier: HttpMatch, later: HttpMatch) -> bool:
    """Return whether all conditions of a match hold when those of another, of a like path, do."""
    return (
        (earlier.port is None or earlier.port == later.port)
        and _sources_cover(earlier, later)
        and all(
            one is None or one == other
            for one, other in (
                (earlier.scheme, later.scheme),
                (earlier.method, later.method),
                (earlier.authority, later.authority),
            )
        )
        and _within(earlier.headers, later.headers, presence=True)
        and _within(earlier.without_headers, later.without_headers)
        and _within(earlier.query_params, later.query_params, presence=True)
    )


def _sources_cover(earlier: HttpMatch, later: HttpMatch) -> bool:
    if earlier.gateways or later.gateways:
        # Where gateways are named, labels and namespace of the source are not looked at.
        sources = earlier.gateways or (earlier.source_labels or earlier.source_namespace)
        return not sources or (
            bool(earlier.gateways and later.gateways)
            and set(later.gateways) <= set(earlier.gateways)
        )
    return (
        earlier.source_namespace
        in (
            "",
            later.source_namespace,
        )
        and earlier.source_labels.items() <= later.source_labels.items()
    )


def _within(
    earlier: Mapping[str, StringMatch], later: Mapping[str, StringMatch], *, presence: bool = False
) -> bool:
    return all(
        name in later and (later[name] == condition or (presence and condition == StringMatch()))
        for name, condition in earlier.items()
    )
