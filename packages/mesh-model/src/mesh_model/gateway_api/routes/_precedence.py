"""Which of several matches of requests comes first, in a total order.

By the Gateway API: an exact path, then the longest prefix, then a method, the most headers, the
most query parameters; then the oldest route, the first by namespace and name, its first rule. The
place of regular expressions is the implementation's choice: as in Istio they come after prefixes,
but before a match of everything, which would leave them nothing.
"""

from typing import NamedTuple

from istio_config import ConfigObject
from istio_config.kinds.virtual_service import HttpMatch, HttpRoute


class Rank(NamedTuple):
    """How specific a match is: the smaller, the earlier it comes."""

    path: int
    length: int
    method: int
    headers: int
    query_params: int


class Entry(NamedTuple):
    """A route with one match; entries are sorted by rank, age, route and place in the route."""

    rank: Rank
    created: str
    owner: str
    rule: int
    match: int
    kind: str
    route: HttpRoute

    @property
    def key(self) -> tuple[object, ...]:
        """Everything that the order depends on."""
        return self[:-1]


def rank_of(match: HttpMatch) -> Rank:
    """Return the rank of a match of an HTTPRoute."""
    uri = match.uri
    conditions = (
        -(match.method is not None),
        -len(match.headers),
        -len(match.query_params),
    )
    if uri is None or (uri.prefix == "/" and not any(conditions)):
        return Rank(3, 0, *conditions)
    if uri.exact is not None:
        return Rank(0, -len(uri.exact), *conditions)
    if uri.prefix is not None:
        return Rank(1, -len(uri.prefix.rstrip("/")), *conditions)
    return Rank(2, -len(uri.regex or ""), *conditions)


def entry(item: ConfigObject, rank: Rank, route: HttpRoute, *, rule: int, match: int) -> Entry:
    """Return the entry of a match of a route."""
    return Entry(
        rank=rank,
        created=item.created or "9999",
        owner=f"{item.namespace}/{item.name}",
        rule=rule,
        match=match,
        kind=item.kind,
        route=route,
    )
