"""The node that a client says it is in its first request, parsed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from mesh_protowire import Json, decode_struct, fields, text_of
from xds_server.protocol._few_fields import text_in

JSON: TypeAlias = Json

_BYTES = 2
_NOT_READ = frozenset({9})
"""The list of Envoy's extensions, which has hundreds of entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A client's own words about itself. Nothing is proven: `Admit` decides what to believe."""

    id: str
    cluster: str = ""
    metadata: Mapping[str, JSON] = field(default_factory=dict)
    region: str = ""
    zone: str = ""
    sub_zone: str = ""
    user_agent: str = ""


def node_from_bytes(data: bytes) -> Node:
    """Return the plain value of a serialised `envoy.config.core.v3.Node`. Raises WireError."""
    found: dict[int, list[bytes]] = {}
    for number, kind, _, start, end in fields(data):
        if kind == _BYTES and number not in _NOT_READ:
            found.setdefault(number, []).append(data[start:end])
    locality = b"".join(found.get(4, ()))
    user_agent = text_in(found.get(6))
    if version := text_in(found.get(7)):
        user_agent += "/" + version
    return Node(
        id=text_in(found.get(1)),
        cluster=text_in(found.get(2)),
        metadata=MappingProxyType(decode_struct(b"".join(found.get(3, ())))),
        region=text_of(locality, 1),
        zone=text_of(locality, 2),
        sub_zone=text_of(locality, 3),
        user_agent=user_agent,
    )
