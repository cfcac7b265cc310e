"""The node that a client says it is in its first request, parsed once."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from mesh_protowire import Json, decode_struct, joined, scan, text, text_of

JSON: TypeAlias = Json

_ID, _CLUSTER, _METADATA, _LOCALITY, _USER_AGENT, _USER_AGENT_VERSION = 1, 2, 3, 4, 6, 7
_READ = frozenset({_ID, _CLUSTER, _METADATA, _LOCALITY, _USER_AGENT, _USER_AGENT_VERSION})


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A client's own words about itself. Nothing is proven: `Admit` decides what to believe."""

    id: str
    cluster: str = ""
    metadata: Mapping[str, JSON] = msgspec.field(default_factory=dict)
    region: str = ""
    zone: str = ""
    sub_zone: str = ""
    user_agent: str = ""


def node_from_bytes(data: bytes) -> Node:
    """Return the plain value of a serialised `envoy.config.core.v3.Node`. Raises WireError."""
    found = scan(data, _READ)
    locality = joined(data, found.get(_LOCALITY, ()))
    user_agent = text(data, found.get(_USER_AGENT))
    if version := text(data, found.get(_USER_AGENT_VERSION)):
        user_agent += "/" + version
    metadata = decode_struct(joined(data, found.get(_METADATA, ())))
    return Node(
        id=text(data, found.get(_ID)),
        cluster=text(data, found.get(_CLUSTER)),
        metadata=MappingProxyType(metadata),
        region=text_of(locality, 1),
        zone=text_of(locality, 2),
        sub_zone=text_of(locality, 3),
        user_agent=user_agent,
    )
