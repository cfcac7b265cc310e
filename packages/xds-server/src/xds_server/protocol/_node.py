"""The node that a client says it is in its first request, parsed once."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from mesh_protowire import (
    Json,
    decode_struct,
    joined,
    number_of,
    scan,
    text,
    text_of,
    value_of,
)

JSON: TypeAlias = Json

_ID, _CLUSTER, _METADATA, _LOCALITY, _USER_AGENT, _USER_AGENT_VERSION = 1, 2, 3, 4, 6, 7
_BUILD_VERSION = 8
_READ = frozenset(
    {_ID, _CLUSTER, _METADATA, _LOCALITY, _USER_AGENT, _USER_AGENT_VERSION, _BUILD_VERSION}
)


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A client's own words about itself. Nothing is proven: `Admit` decides what to believe."""

    id: str
    cluster: str = ""
    metadata: Mapping[str, JSON] = msgspec.field(default_factory=dict)
    region: str = ""
    zone: str = ""
    sub_zone: str = ""
    user_agent: str = ""
    """Its name and version, such as `envoy/1.40.0`."""


def node_from_bytes(data: bytes) -> Node:
    """Return the plain value of a serialised `envoy.config.core.v3.Node`. Raises WireError."""
    found = scan(data, _READ)
    locality = joined(data, found.get(_LOCALITY, ()))
    user_agent = text(data, found.get(_USER_AGENT))
    version = text(data, found.get(_USER_AGENT_VERSION))
    version = version or _semantic(joined(data, found.get(_BUILD_VERSION, ())))
    if version:
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


def _semantic(build: bytes) -> str:
    """Return the version in an `envoy.config.core.v3.BuildVersion`; empty without one."""
    version = value_of(build, 1) if build else None
    if not version:
        return ""
    return ".".join(str(number_of(version, part)) for part in (1, 2, 3))
