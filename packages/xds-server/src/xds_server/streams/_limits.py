"""The limits of requests and responses; the size of a request is checked before it is parsed.

A node's metadata is parsed into Python values, which takes fifty times as long as to step over it
and a hundred times the memory; and its sender has not been admitted yet.
"""

from __future__ import annotations

import grpc
from msgspec.structs import replace

from mesh_protowire import WireError, scan
from xds_server._config import ServerConfig
from xds_server._errors import BadRequest, StreamRefused
from xds_server.monitoring._status import shorten
from xds_server.protocol._names import longest_of
from xds_server.protocol._node import Node
from xds_server.protocol._request import DeltaRequest, SotwRequest
from xds_server.protocol._response import Response
from xds_server.subscriptions._subscription import Subscription

# Field numbers of envoy.service.discovery.v3.DiscoveryRequest and DeltaDiscoveryRequest.
_NODE_OF_SOTW, _NODE_OF_DELTA = 2, 1

_LONGEST_WORD = 1024
"""Of a type URL, a nonce and a node's id, which are kept; Kubernetes' longest names make 800."""

_FIELDS_BESIDE_NAMES = 1000
_LISTS_OF_NAMES = 3  # subscribed to, given up, known from before


def check_size(data: bytes, *, delta: bool, config: ServerConfig) -> None:
    """Raise `BadRequest` if a request, its node or its lists of names are over the limits."""
    if len(data) > config.max_request_bytes:
        raise _too_large("request", len(data), config.max_request_bytes, "max_request_bytes")
    if len(data) <= config.max_node_bytes:
        return  # The node is no larger.
    most_fields = _LISTS_OF_NAMES * config.max_subscribed_names + _FIELDS_BESIDE_NAMES
    node = _NODE_OF_DELTA if delta else _NODE_OF_SOTW
    try:
        found = scan(data, frozenset({node}), at_most=most_fields).get(node, ())
    except WireError as error:
        raise BadRequest(
            grpc.StatusCode.INVALID_ARGUMENT,
            f"{len(data)} bytes that are no discovery request, or one of more than {most_fields}"
            " fields",
        ) from error
    # A node that is sent in pieces is put together from all of them.
    node_bytes = sum(end - start for start, end in found)
    if node_bytes > config.max_node_bytes:
        raise _too_large("node", node_bytes, config.max_node_bytes, "max_node_bytes")


def _too_large(what: str, size: int, most: int, knob: str) -> BadRequest:
    return BadRequest(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        f"{what} of {size} bytes, at most {most} are taken ({knob})",
    )


def check_request(
    request: SotwRequest | DeltaRequest, *, type_url: str | None, config: ServerConfig
) -> SotwRequest | DeltaRequest:
    """Return the request with the type of its service. Raises `BadRequest`."""
    wanted = type_url or request.type_url
    if not wanted:
        raise BadRequest(
            grpc.StatusCode.INVALID_ARGUMENT,
            "type_url is empty; an aggregated stream needs it in every request",
        )
    if request.type_url and request.type_url != wanted:
        raise BadRequest(
            grpc.StatusCode.INVALID_ARGUMENT,
            f"type_url is {request.type_url!r}, but this service is for {wanted!r}",
        )
    for what, word in (("type_url", wanted), ("response_nonce", request.nonce)):
        if len(word) > _LONGEST_WORD:
            raise _too_long(what, word)
    names = request.names if isinstance(request, SotwRequest) else request.subscribe
    if len(names) > config.max_subscribed_names:
        raise BadRequest(
            grpc.StatusCode.INVALID_ARGUMENT,
            f"{len(names)} names of {wanted!r}, at most {config.max_subscribed_names}",
        )
    if (longest := longest_of(names)) > config.max_name_length:
        raise BadRequest(
            grpc.StatusCode.INVALID_ARGUMENT,
            f"a name of {longest} characters of {wanted!r}, at most {config.max_name_length} are"
            " taken (max_name_length)",
        )
    if request.error is not None:
        error = replace(request.error, message=shorten(request.error.message))
        request = replace(request, error=error)
    return request if request.type_url else replace(request, type_url=wanted)


def check_node(node: Node | None) -> None:
    """Raise `BadRequest` if a node's id is longer than any; it is kept when the stream is over."""
    if node is not None and len(node.id) > _LONGEST_WORD:
        raise _too_long("node.id", node.id)


def _too_long(what: str, word: str) -> BadRequest:
    return BadRequest(
        grpc.StatusCode.INVALID_ARGUMENT,
        f"{what} of {len(word)} characters, at most {_LONGEST_WORD} are taken",
    )


def check_names(subscription: Subscription | None, *, config: ServerConfig) -> None:
    """Raise `BadRequest` if many delta requests together subscribe to too many names."""
    most = config.max_subscribed_names
    if subscription is not None and len(subscription.names) > most:
        raise BadRequest(
            grpc.StatusCode.INVALID_ARGUMENT,
            f"{len(subscription.names)} names of {subscription.type_url!r} on one stream, at most"
            f" {most} (max_subscribed_names)",
        )


def too_large_response(response: Response, *, config: ServerConfig) -> StreamRefused:
    """Return the error of a response that is larger than gRPC would send."""
    return StreamRefused(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        f"the response of {response.type_url} has {response.size} bytes, at most"
        f" {config.max_message_bytes} can be sent (max_message_bytes of the server)",
    )
