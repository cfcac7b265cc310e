"""What one push brings a client: every type generated from one state, before any of it is sent.

Generators work on live state, and between two responses of a push that state may move on. Were
each type generated when its turn comes, routes of a newer state would follow clusters of an older
one. What the new clusters and listeners refer to is made along with them, as the client asks for
it only when it has read them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from xds_server.protocol._resource import Resource
from xds_server.protocol._watch import Watch
from xds_server.sources._generated import Generated
from xds_server.subscriptions._subscription import Query

Generate: TypeAlias = Callable[[Query], Generated | None]
"""Makes what an ask is for; None: there is nothing to say."""


class GeneratedFor(NamedTuple):
    """An ask, and what was generated for it."""

    query: Query
    generated: Generated | None


class PushContents:
    """What was generated for one push, by type."""

    __slots__ = ("_made", "_referred")

    def __init__(self, queries: Iterable[Query], source: Generate) -> None:
        self._made: dict[str, list[GeneratedFor]] = {}
        self._referred: dict[str, Mapping[str, Resource]] = {}
        for query in queries:
            self._made.setdefault(query.type_url, []).append(GeneratedFor(query, source(query)))

    def of(self, type_url: str) -> Iterable[GeneratedFor]:
        """What was generated of a type."""
        return self._made.get(type_url, ())

    def refer(self, type_url: str, names: frozenset[str], source: Generate) -> None:
        """Make what new resources refer to, by these names, for when the client asks for it."""
        if any(made.generated.complete for made in self._known(type_url)):
            return  # What is not in there does not exist.
        names = names.difference(*(made.generated.by_name() for made in self._known(type_url)))
        if names:
            watch = Watch(type_url=type_url, names=names)
            generated = source(Query(type_url=type_url, watch=watch, requested=True))
            if generated is not None:
                self._referred[type_url] = generated.by_name()

    def answer(self, query: Query) -> Generated | None:
        """What a client that asks in the middle of the push gets; None: it is not in here."""
        for made in self._known(query.type_url):
            whole = made.query.watch == query.watch and not made.generated.partial
            if made.generated.complete or (whole and query.watch.wildcard):
                return made.generated
        if query.watch.wildcard:
            return None
        found: dict[str, Resource] = {}
        for name in query.watch.names:
            resource = self._find(query.type_url, name)
            if resource is None:
                return None
            found[name] = resource
        return Generated(resources=tuple(found.values()), version=self._version(query.type_url))

    def _find(self, type_url: str, name: str) -> Resource | None:
        for made in self._known(type_url):
            if (resource := made.generated.by_name().get(name)) is not None:
                return resource
        return self._referred.get(type_url, {}).get(name)

    def _version(self, type_url: str) -> str | None:
        return next((made.generated.version for made in self._known(type_url)), None)

    def _known(self, type_url: str) -> list[_Known]:
        return [
            _Known(query, generated)
            for query, generated in self._made.get(type_url, ())
            if generated is not None
        ]


class _Known(NamedTuple):
    query: Query
    generated: Generated
