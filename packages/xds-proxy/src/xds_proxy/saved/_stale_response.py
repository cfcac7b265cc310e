"""The responses that an Envoy gets from saved configuration; pure functions.

Their versions begin with `saved-`, so that a control plane never takes them for its own: it then
always sends what it has. (Control planes count versions from 1; the 7 that was saved need not be
the 7 of today.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mesh_protowire import bytes_field, string_field
from xds_proxy.protocol._dialect import Dialect
from xds_proxy.protocol._resources import Resource, write_response
from xds_proxy.saved._merging import Resources

PREFIX = "saved-"
_NOTHING_SAVED = PREFIX + "nothing"
_ENVOY = "type.googleapis.com/envoy.config."
_EMPTY_IF_MISSING = frozenset(
    {_ENVOY + "endpoint.v3.ClusterLoadAssignment", _ENVOY + "route.v3.RouteConfiguration"}
)
"""Envoy waits for these before it serves anything, for ever if the control plane wants it so. An
empty one costs the requests of one cluster or one route table; the name is the first field."""
_ANY_TYPE_URL, _ANY_VALUE, _NAME = 1, 2, 1


class StaleResponse(NamedTuple):
    """A response to Envoy. names: of what is in it. missing: those of them that are empty."""

    message: bytes
    names: frozenset[str]
    missing: tuple[str, ...]


def stale_response(
    dialect: Dialect,
    type_url: str,
    saved: Resources | None,
    *,
    version: str,
    names: frozenset[str] | None,
    has: frozenset[str],
    nonce: str,
) -> StaleResponse | None:
    """Return what Envoy gets of a type; None if there is nothing for it.

    saved: the type's resources; None if it is not saved. version: the type's, as it was saved.
    names: those that Envoy asks for; None for all. has: names that it has from saved configuration.
    """
    missing: list[str] = []
    if names is None:
        if saved is None:
            return None
        found = list(saved.values())
    else:
        known = saved or {}
        # Delta adds to what is there. State of the world, too, for all types that are asked for by
        # name; but a control plane sends all of them, and so does this.
        wanted = sorted(names - has if dialect.resources_are_wrapped else names)
        found = [known[name] for name in wanted if name in known]
        if type_url in _EMPTY_IF_MISSING:
            missing = [name for name in wanted if name not in known]
        found += (_empty(type_url, name) for name in missing)
        if not found:
            return None
    message = write_response(
        dialect,
        type_url=type_url,
        version=PREFIX + version,
        nonce=nonce,
        resources=tuple(with_stale_versions(found)),
    )
    return StaleResponse(message, frozenset(each.name for each in found), tuple(missing))


def with_stale_versions(resources: Iterable[Resource]) -> Iterator[Resource]:
    """Yield resources with versions that no control plane takes for its own."""
    for each in resources:
        if each.version.startswith(PREFIX):
            yield each
        else:
            yield each._replace(version=PREFIX + each.version)


def _empty(type_url: str, name: str) -> Resource:
    body = string_field(_ANY_TYPE_URL, type_url) + bytes_field(
        _ANY_VALUE, string_field(_NAME, name)
    )
    return Resource(name, _NOTHING_SAVED, body)
