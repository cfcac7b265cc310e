"""The resources that Envoy has, made of those that are saved and of the responses it accepted.

Pure functions. A response may have all resources of its type or some of them; delta says which are
gone, and state of the world says it by leaving them out where a response has all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from xds_proxy.protocol._dialect import DELTA, Dialect
from xds_proxy.protocol._resources import (
    Resource,
    removed_of,
    resources_of,
    write_response,
)

_SECRET = re.compile(
    rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----|ISTIO_META_WASM_IMAGE_PULL_SECRET"
)
"""A key in PEM that is inline in a listener or cluster; the credentials of a Wasm registry."""

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
    """The resources of a type, by name. withheld: names of those that hold a secret."""

    resources: Resources
    version: str
    withheld: tuple[str, ...]


def merged(saved: Resources, version: str, changes: Iterable[Change]) -> Merged:
    """Return the resources of a type after `changes`; raises WireError."""
    resources = dict(saved)
    withheld: dict[str, None] = {}
    keep: AbstractSet[str] | None = None
    for change in changes:
        version = change.dialect.read_response(change.response).version or version
        if change.replaces:
            resources = {name: each for name, each in resources.items() if name in change.refused}
            withheld = {name: None for name in withheld if name in change.refused}
        for resource in _named(change):
            if resource.name in change.refused:
                continue
            withheld.pop(resource.name, None)
            if _SECRET.search(resource.body) is not None:
                resources.pop(resource.name, None)
                withheld[resource.name] = None
            elif resource.body:
                resources[resource.name] = resource
            # An empty one only prolongs the life of what is there.
        for name in removed_of(change.dialect, change.response):
            resources.pop(name, None)
            withheld.pop(name, None)
        keep = change.keep
    if keep is not None:
        resources = {name: each for name, each in resources.items() if name in keep}
        withheld = {name: None for name in withheld if name in keep}
    return Merged(resources, version, tuple(withheld))


def numbered(dialect: Dialect, response: bytes) -> bytes:
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


def _named(change: Change) -> Iterable[Resource]:
    """The resources with names; where two have one name, both count, and the last stays."""
    return (each for each in resources_of(change.dialect, change.response) if each.name)
