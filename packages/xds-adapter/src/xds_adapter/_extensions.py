"""The extensions that an Envoy has, as its node lists them.

envoy/config/core/v3/base.proto: `Node.extensions`. Envoy lists them since 1.14, with the types of
their configuration (`type_urls`) since 1.20.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mesh_protowire import WireError, scan, text, type_name, varint

_NODE_EXTENSIONS = 9
_NAME, _CATEGORY, _DISABLED, _TYPE_URLS = 1, 2, 5, 6
_OF_EXTENSION = frozenset({_NAME, _CATEGORY, _TYPE_URLS})

_PER_ROUTE = "PerRoute"


class Extensions(NamedTuple):
    """The extensions of one Envoy.

    types: full names of the messages that configure one.
    by_category: of each category the extensions by name, with the types that configure them; a name
        without a type is an old name, or needs no configuration.
    """

    types: frozenset[str]
    by_category: Mapping[str, Mapping[str, tuple[str, ...]]]

    def has(self, type_url: str) -> bool:
        """Return whether a message of this type configures one of the extensions."""
        return type_name(type_url) in self.types

    def has_name(self, category: str, name: str) -> bool:
        """Return whether there is an extension of this name in a category."""
        return name in self.by_category.get(category, {})

    def type_for(self, category: str, name: str) -> str | None:
        """Return the type that configures an extension of this name, which may be an old one.

        None if the Envoy has none of that name.
        """
        known = self.by_category.get(category, {})
        types = known.get(name)
        if types is None:
            return None
        if not types:
            last = name.rpartition(".")[2]
            alike = [each for each in known if each.rpartition(".")[2] == last and known[each]]
            types = known[alike[0]] if len(alike) == 1 else ()
        # Of a filter that routes may configure otherwise, there is a second type for that.
        return next((each for each in types if not each.endswith(_PER_ROUTE)), None)


def read_extensions(node: bytes) -> Extensions | None:
    """Return what a serialised `Node` lists; None if it has no list with types, or is damaged."""
    try:
        found = list(_listed(node))
    except WireError:
        return None
    by_category: dict[str, dict[str, tuple[str, ...]]] = {}
    for category, name, types in found:
        by_category.setdefault(category, {})[name] = types
    every = frozenset(each for _, _, types in found for each in types)
    return Extensions(every, by_category) if every else None


def _listed(node: bytes) -> Iterable[tuple[str, str, tuple[str, ...]]]:
    for start, end in scan(node, {_NODE_EXTENSIONS}).get(_NODE_EXTENSIONS, ()):
        found = scan(node, _OF_EXTENSION, start, end, numbers={_DISABLED})
        if any(varint(node, begin)[0] for begin, _ in found.get(_DISABLED, ())[-1:]):
            continue
        types = tuple(
            type_name(node[begin:after].decode(errors="replace"))
            for begin, after in found.get(_TYPE_URLS, ())
        )
        yield text(node, found.get(_CATEGORY)), text(node, found.get(_NAME)), types
