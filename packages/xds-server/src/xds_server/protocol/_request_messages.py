"""Requests with many names, parsed by protobuf's library."""

from __future__ import annotations

from collections.abc import Iterable
from sys import intern
from typing import TypeAlias

import grpc
from envoy.service.discovery.v3.discovery_pb2 import DeltaDiscoveryRequest, DiscoveryRequest
from google.protobuf.message import DecodeError

from mesh_protowire import WireError
from xds_server._errors import BadRequest
from xds_server.protocol._names import shared_names
from xds_server.protocol._node import Node, node_from_bytes
from xds_server.protocol._request import ClientError, DeltaRequest, Parsed, SotwRequest

Message: TypeAlias = DeltaDiscoveryRequest | DiscoveryRequest


def parse_sotw_message(data: bytes, *, with_node: bool) -> Parsed:
    """Parse a state-of-the-world request. Raises `BadRequest`."""
    message = DiscoveryRequest()
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


def parse_delta_message(data: bytes, *, with_node: bool) -> Parsed:
    """Parse a delta request. Raises `BadRequest`."""
    message = DeltaDiscoveryRequest()
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


def _merge(message: Message, data: bytes) -> None:
    try:
        message.MergeFromString(data)
    except DecodeError as error:
        raise _malformed(message, data) from error


def _malformed(message: Message, data: bytes) -> BadRequest:
    return BadRequest(
        grpc.StatusCode.INVALID_ARGUMENT,
        f"{len(data)} bytes that are no {message.DESCRIPTOR.name}",
    )


def _names(names: Iterable[str]) -> frozenset[str]:
    return shared_names(frozenset(map(intern, names)))


def _error(message: Message) -> ClientError | None:
    if not message.HasField("error_detail"):
        return None
    return ClientError(code=message.error_detail.code, message=message.error_detail.message)


def _node(message: Message) -> Node | None:
    if not message.HasField("node"):
        return None
    data = message.node.SerializeToString()
    try:
        return node_from_bytes(data)
    except WireError as error:
        raise _malformed(message, data) from error
