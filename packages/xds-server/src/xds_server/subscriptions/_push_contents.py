"""The contents of one push to one client: all types generated from one state before any is sent.

Generators work on live state, and between two responses of a push that state may move on. Were
each type generated when it is sent, routes of a newer state would follow clusters of an older one.
The resources that new clusters and listeners refer to are generated along with them, as the client
asks for them only when it has read the clusters and listeners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from xds_server.protocol._resource import Resource
from xds_server.protocol._watch import Watch
from xds_server.sources._generated import Generated
from xds_server.subscriptions._subscription import Query

Generate: TypeAlias = Callable[[Query], Generated | None]
"""Returns the resources for a query; None: there is nothing to send."""


class GeneratedFor(NamedTuple):
    """A query, and what the generator returned for it."""

    query: Query
    generated: Generated | None


class PushContents:
    """The resources that were generated for one push, by type."""

    __slots__ = ("_by_type", "_referenced")

    def __init__(self, queries: Iterable[Query], generate: Generate) -> None:
        self._by_type: dict[str, list[GeneratedFor]] = {}
        self._referenced: dict[str, Mapping[str, Resource]] = {}
        for query in queries:
            results = self._by_type.setdefault(query.type_url, [])
            results.append(GeneratedFor(query, generate(query)))

    def for_type(self, type_url: str) -> Iterable[GeneratedFor]:
        """Return the results for the queries of a type."""
        return self._by_type.get(type_url, ())

    def add_referenced(self, type_url: str, names: frozenset[str], generate: Generate) -> None:
        """Generate resources that new ones refer to, for when the client asks for them."""
        if any(generated.complete for _, generated in self._results(type_url)):
            return  # Names that are not among them do not exist.
        names = names.difference(*(generated.by_name() for _, generated in self._results(type_url)))
        if names:
            watch = Watch(type_url=type_url, names=names)
            generated = generate(Query(type_url=type_url, watch=watch, requested=True))
            if generated is not None:
                self._referenced[type_url] = generated.by_name()

    def answer(self, query: Query) -> Generated | None:
        """Return the answer to a client that asks during the push; None if it is not in here."""
        for known, generated in self._results(query.type_url):
            whole = known.watch == query.watch and not generated.partial
            if generated.complete or (whole and query.watch.wildcard):
                return generated
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
        for _, generated in self._results(type_url):
            if (resource := generated.by_name().get(name)) is not None:
                return resource
        return self._referenced.get(type_url, {}).get(name)

    def _version(self, type_url: str) -> str | None:
        return next((generated.version for _, generated in self._results(type_url)), None)

    def _results(self, type_url: str) -> list[tuple[Query, Generated]]:
        """Return the queries of a type for which there was a result, with it."""
        return [
            (query, generated)
            for query, generated in self._by_type.get(type_url, ())
            if generated is not None
        ]
