"""How large a request may be, found out before it is parsed.

A node's metadata is parsed into Python values, which takes fifty times as long as to step over it
and a hundred times the memory; and who sends it has not been admitted yet.
"""

from __future__ import annotations

import grpc

from ._config import ServerConfig
from ._errors import BadRequest

# Field numbers of envoy.service.discovery.v3.DiscoveryRequest and DeltaDiscoveryRequest.
_NODE_OF_SOTW, _NODE_OF_DELTA = 2, 1

_FIELDS_BESIDE_NAMES = 1000
_LISTS_OF_NAMES = 3  # subscribed to, given up, known from before


def check_size(data: bytes, *, delta: bool, config: ServerConfig) -> None:
    """Raises `BadRequest` if a request, its node or its lists of names are over the limits."""
    if len(data) > config.max_request_bytes:
        raise _too_large("request", len(data), config.max_request_bytes, "max_request_bytes")
    if len(data) <= config.max_node_bytes:
        return  # as is all that is in it
    most_fields = _LISTS_OF_NAMES * config.max_subscribed_names + _FIELDS_BESIDE_NAMES
    node = _NODE_OF_DELTA if delta else _NODE_OF_SOTW
    try:
        # Given in pieces, a message is put together from all of them.
        node_bytes = _bytes_of_field(node, data, most_fields=most_fields)
    except (IndexError, ValueError) as error:
        raise BadRequest(
            grpc.StatusCode.INVALID_ARGUMENT,
            f"{len(data)} bytes that are no discovery request, or one of more than {most_fields}"
            " fields",
        ) from error
    if node_bytes > config.max_node_bytes:
        raise _too_large("node", node_bytes, config.max_node_bytes, "max_node_bytes")


def _too_large(what: str, size: int, most: int, knob: str) -> BadRequest:
    return BadRequest(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        f"{what} of {size} bytes, at most {most} are taken ({knob})",
    )


def _bytes_of_field(wanted: int, data: bytes, *, most_fields: int) -> int:
    """The length of all occurrences of a field at the top level, without a look inside.

    Raises IndexError or ValueError for what is no protobuf as requests use it.
    """
    at = found = 0
    end = len(data)
    while at < end:
        most_fields -= 1
        if most_fields < 0:
            raise ValueError("too many fields")
        tag, at = _varint(data, at)
        if not 8 <= tag <= 0xFFFFFFFF:
            raise ValueError(f"tag {tag}")
        kind = tag & 7
        if kind == 2:
            length, at = _varint(data, at)
            at += length
            if tag >> 3 == wanted:
                found += length
        elif kind == 0:
            _, at = _varint(data, at)
        elif kind == 1:
            at += 8
        elif kind == 5:
            at += 4
        else:
            raise ValueError(f"wire type {kind}")
    if at != end:
        raise ValueError("cut short")
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    if byte < 0x80:
        return byte, at
    result, shift = byte & 0x7F, 7
    while shift < 70:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7
    raise ValueError("varint too long")
