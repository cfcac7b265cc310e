"""Requests as plain values, read from the bytes a client sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from sys import intern
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import grpc
from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf.message import DecodeError

from xds_server._errors import BadRequest
from xds_server.protocol._node import Node, node_from_proto
from xds_server.protocol._resources_by_name import shared_names

if TYPE_CHECKING:
    from envoy.service.discovery.v3.discovery_pb2 import (
        DeltaDiscoveryRequest,
        DiscoveryRequest,
    )

    Message: TypeAlias = DeltaDiscoveryRequest | DiscoveryRequest

_NO_VERSIONS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientError:
    """Why a client refused a response."""

    code: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SotwRequest:
    """A `DiscoveryRequest`."""

    type_url: str
    names: frozenset[str] = frozenset()
    version: str = ""
    nonce: str = ""
    error: ClientError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaRequest:
    """A `DeltaDiscoveryRequest`."""

    type_url: str
    subscribe: frozenset[str] = frozenset()
    unsubscribe: frozenset[str] = frozenset()
    initial_versions: Mapping[str, str] = field(default_factory=lambda: _NO_VERSIONS)
    nonce: str = ""
    error: ClientError | None = None


class Parsed(NamedTuple):
    """A request, and its node, which a client need send in the first request only."""

    request: SotwRequest | DeltaRequest
    node: Node | None


def parse_sotw(data: bytes, *, with_node: bool = True) -> Parsed:
    """Parse a state-of-the-world request. Raises `BadRequest` for other bytes."""
    message = discovery_pb2.DiscoveryRequest()
    _merge(message, data)
    return Parsed(
        request=SotwRequest(
            type_url=intern(message.type_url),
            names=_names(message.resource_names),
            version=message.version_info,
            nonce=message.response_nonce,
            error=_error(message),
        ),
        node=_node(message) if with_node else None,
    )


def parse_delta(data: bytes, *, with_node: bool = True) -> Parsed:
    """Parse a delta request. Raises `BadRequest` for other bytes."""
    if not with_node and (acknowledgement := _bare_acknowledgement(data)) is not None:
        return acknowledgement
    message = discovery_pb2.DeltaDiscoveryRequest()
    _merge(message, data)
    return Parsed(
        request=DeltaRequest(
            type_url=intern(message.type_url),
            subscribe=_names(message.resource_names_subscribe),
            unsubscribe=_names(message.resource_names_unsubscribe),
            initial_versions={
                intern(name): version for name, version in message.initial_resource_versions.items()
            },
            nonce=message.response_nonce,
            error=_error(message),
        ),
        node=_node(message) if with_node else None,
    )


def _bare_acknowledgement(data: bytes) -> Parsed | None:
    """Return a request that has only a type and a nonce, as most requests do; None for others.

    Reading these two fields by hand (2 and 6, each shorter than 128 bytes) takes a tenth of the
    time.
    """
    end = len(data)
    if end < 4 or data[0] != 0x12:
        return None
    nonce_at = 2 + data[1]
    if data[1] > 0x7F or nonce_at + 2 > end or data[nonce_at] != 0x32:
        return None
    if data[nonce_at + 1] > 0x7F or nonce_at + 2 + data[nonce_at + 1] != end:
        return None
    try:
        type_url = intern(data[2:nonce_at].decode())
        nonce = data[nonce_at + 2 :].decode()
    except UnicodeDecodeError:
        return None  # The parser then refuses it.
    return Parsed(request=DeltaRequest(type_url=type_url, nonce=nonce), node=None)


def _merge(message: Message, data: bytes) -> None:
    try:
        message.MergeFromString(data)
    except DecodeError as error:
        raise BadRequest(
            grpc.StatusCode.INVALID_ARGUMENT,
            f"{len(data)} bytes that are no {message.DESCRIPTOR.name}",
        ) from error


def _names(names: Iterable[str]) -> frozenset[str]:
    # Interned: a thousand clients of one shape then share one copy of every name.
    return shared_names(frozenset(map(intern, names)))


def _error(message: Message) -> ClientError | None:
    if not message.HasField("error_detail"):
        return None
    return ClientError(code=message.error_detail.code, message=message.error_detail.message)


def _node(message: Message) -> Node | None:
    return node_from_proto(message.node) if message.HasField("node") else None
