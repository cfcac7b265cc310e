"""Matches that are never reached, as an earlier one takes all their requests.

Earlier matches are looked up by their paths, so that long lists cost little.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from istio_config.kinds.kind import Coded
from istio_config.kinds.virtual_service._http_routes import HttpRoute
from istio_config.kinds.virtual_service._matches import HttpMatch, StringMatch
from mesh_configfile import FieldPath

_EVERYTHING = HttpMatch()
_PATH_REGEXES_OF_ALL = (".*", "/.*")


class MatchIndex(NamedTuple):
    """The index of a route and that of its match; None: the route has no match, and takes all."""

    rule: int
    match: int | None


def _shadowed_matches(
    routes: tuple[HttpRoute, ...],
) -> Iterator[tuple[MatchIndex, MatchIndex]]:
    """Yield each match that is never reached, and the earlier one that takes all its requests."""
    earlier: dict[tuple[str, str], list[tuple[MatchIndex, HttpMatch]]] = {}
    for rule, route in enumerate(routes):
        matches: tuple[tuple[int | None, HttpMatch], ...] = tuple(enumerate(route.match))
        for index, match in matches or ((None, _EVERYTHING),):
            here = MatchIndex(rule, index)
            by = next(
                (
                    known
                    for key in _keys_that_take(match)
                    for known, other in earlier.get(key, ())
                    if _covers(other, match)
                ),
                None,
            )
            if by is not None:
                yield here, by
            else:
                earlier.setdefault(_key(match), []).append((here, match))


def never_reached(matches: Sequence[HttpMatch]) -> Mapping[int, int]:
    """Return the places of matches in a row that are never reached, with that of an earlier one.

    The earlier one takes all their requests.
    """
    routes = tuple(HttpRoute(match=(each,)) for each in matches)
    return {index.rule: by.rule for index, by in _shadowed_matches(routes)}


def takes_everything(match: HttpMatch) -> bool:
    """Return whether a match has no condition on a request, and holds for all its clients."""
    return _key(match) == _ALL and _covers(match, _EVERYTHING)


_ALL = ("", "")


def _key(match: HttpMatch) -> tuple[str, str]:
    """Return how a match looks at paths: exact, prefix or regex, with `i` where case is ignored."""
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


def _keys_that_take(match: HttpMatch) -> Iterator[tuple[str, str]]:
    """Yield the keys of all matches that take every path that this one takes."""
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
    """Return whether a request that meets `later` meets `earlier` too, apart from its path.

    Conditions are compared as they are written, so that a warning may be missing; none is wrong.
    """
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
        earlier.source_namespace in ("", later.source_namespace)
        and earlier.source_labels.items() <= later.source_labels.items()
    )


def _within(
    earlier: Mapping[str, StringMatch], later: Mapping[str, StringMatch], *, presence: bool = False
) -> bool:
    """Return whether `later` has all conditions of `earlier`.

    presence: whether an empty condition means that there is a value, whichever it is.
    """
    return all(
        name in later and (later[name] == condition or (presence and condition == StringMatch()))
        for name, condition in earlier.items()
    )


def shadowed_match_warnings(routes: tuple[HttpRoute, ...]) -> Iterator[Coded]:
    """Yield that matches are never reached; paths start below the spec."""
    found = list(_shadowed_matches(routes))
    never = Counter(each.rule for each, _ in found)
    for shadowed, by in found:
        path: FieldPath = ("http", shadowed.rule)
        if shadowed.match is not None:
            path = (*path, "match", shadowed.match)
        of_rule = never[shadowed.rule] >= len(routes[shadowed.rule].match)
        code = "IST0130" if of_rule else "IST0131"
        yield path, f"is never reached: {_named(by)} takes all its requests", code


def _named(index: MatchIndex) -> str:
    if index.match is None:
        return f"rule {index.rule + 1}, which has no match,"
    return f"match {index.match + 1} of rule {index.rule + 1}"
