"""The node that a client says it is in its first request, parsed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from sys import intern
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from envoy.config.core.v3.base_pb2 import Node as NodeMessage
    from google.protobuf.struct_pb2 import Struct, Value

JSON: TypeAlias = bool | float | str | list["JSON"] | dict[str, "JSON"] | None


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


def node_from_proto(message: NodeMessage) -> Node:
    """Return the plain value of an `envoy.config.core.v3.Node`."""
    user_agent = message.user_agent_name
    if message.user_agent_version:
        user_agent += "/" + message.user_agent_version
    return Node(
        id=message.id,
        cluster=message.cluster,
        metadata=MappingProxyType(_struct(message.metadata)),
        region=message.locality.region,
        zone=message.locality.zone,
        sub_zone=message.locality.sub_zone,
        user_agent=user_agent,
    )


def _struct(struct: Struct) -> dict[str, JSON]:
    return {intern(key): _value(value) for key, value in struct.fields.items()}


def _value(value: Value) -> JSON:
    match value.WhichOneof("kind"):
        case "bool_value":
            return value.bool_value
        case "number_value":
            return value.number_value
        case "string_value":
            return value.string_value
        case "list_value":
            return [_value(item) for item in value.list_value.values]
        case "struct_value":
            return _struct(value.struct_value)
        case _:
            return None
