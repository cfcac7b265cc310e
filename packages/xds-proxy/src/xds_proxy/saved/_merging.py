"""The resources that Envoy has: those that are saved, merged with the responses it accepted.

Pure functions. A response may have all resources of its type or some of them; delta says which are
gone, and state of the world says it by leaving them out where a response has all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from mesh_protowire import scan
from xds_proxy.protocol._dialect import DELTA, Dialect
from xds_proxy.protocol._resources import (
    Resource,
    only_prolongs,
    removed_of,
    resources_of,
    with_time_to_live,
    write_response,
)

_SECRET = re.compile(
    rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----|ISTIO_META_WASM_IMAGE_PULL_SECRET"
)
"""A key in PEM that is inline in a listener or cluster; the credentials of a Wasm registry."""

_TIME_TO_LIVE = 6
_ONLY_TTL = frozenset({_TIME_TO_LIVE})

Resources = Mapping[str, Resource]


class Change(NamedTuple):
    """A response that was accepted.

    replaces: it has all resources of its type; of those that Envoy refused, it has others.
    keep: the names that Envoy has after it; None if that is not known, or all.
    refused: the names in it that Envoy refused.
    """

    dialect: Dialect
    response: bytes
    replaces: bool
    keep: AbstractSet[str] | None
    refused: AbstractSet[str]


class Merged(NamedTuple):
    """The resources of a type, by name. withheld: names of those left out.

    They hold a secret, or have a time to live: what is saved is for an outage, which lasts longer.
    """

    resources: Resources
    version: str
    withheld: tuple[str, ...]


def merge(
    saved: Resources, version: str, changes: Iterable[Change], *, left_out: Iterable[str] = ()
) -> Merged:
    """Return the resources of a type after `changes`; raises WireError.

    left_out: names of those that were withheld before.
    """
    resources = dict(saved)
    withheld = dict.fromkeys(left_out)
    keep: AbstractSet[str] | None = None
    for change in changes:
        version = change.dialect.read_response(change.response).version or version
        if change.replaces and not only_prolongs(change.response):
            resources = {name: each for name, each in resources.items() if name in change.refused}
            withheld = {name: None for name in withheld if name in change.refused}
        for each in _resources_with_names(change):
            if each.name in change.refused:
                continue
            resource, has_time_to_live = _plain(each)
            if not resource.body:
                # It prolongs the life of what is there, or is of a name that stands for nothing.
                if has_time_to_live and resource.name not in resources:
                    withheld[resource.name] = None
                continue
            withheld.pop(resource.name, None)
            if has_time_to_live or _SECRET.search(resource.body) is not None:
                resources.pop(resource.name, None)
                withheld[resource.name] = None
            else:
                resources[resource.name] = resource
        for name in removed_of(change.dialect, change.response):
            resources.pop(name, None)
            withheld.pop(name, None)
        keep = change.keep
    if keep is not None:
        resources = {name: each for name, each in resources.items() if name in keep}
        withheld = {name: None for name in withheld if name in keep}
    return Merged(resources, version, tuple(withheld))


def _plain(resource: Resource) -> tuple[Resource, bool]:
    """Return a resource by itself, and whether it has a time to live.

    State of the world has both in a `Resource` in the `Any`.
    """
    wrapper = with_time_to_live(resource.body)
    if wrapper is not None:
        resource = wrapper._replace(name=resource.name, more=resource.more + wrapper.more)
    return resource, _TIME_TO_LIVE in scan(resource.more, _ONLY_TTL)


def number_resources(dialect: Dialect, response: bytes) -> bytes:
    """Return a delta response with the same resources, whose names are their numbers."""
    resources = resources_of(dialect, response)
    return write_response(
        DELTA,
        type_url="",
        version=dialect.read_response(response).version,
        nonce="",
        resources=[
            each._replace(name=f"{number:06}") for number, each in enumerate(resources) if each.body
        ],
    )


def _resources_with_names(change: Change) -> Iterable[Resource]:
    """The resources with names; where two have one name, both count, and the last stays."""
    return (each for each in resources_of(change.dialect, change.response) if each.name)
