"""How large a request may be, found out before it is parsed.

A node's metadata is parsed into Python values, which takes fifty times as long as to step over it
and a hundred times the memory; and who sends it has not been admitted yet.
"""

from __future__ import annotations

import grpc

from xds_server._config import ServerConfig
from xds_server._errors import BadRequest
from xds_server.protocol._wire_fields import fields

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
        found = fields(data, at_most=most_fields)
        node_bytes = sum(end - start for field, start, end in found if field == node)
    except ValueError as error:
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
