"""The two dialects of an ADS stream, state of the world and delta: a path and field numbers.

The rest of the relay is the same for both.
Field numbers: envoy/service/discovery/v3/discovery.proto; google/rpc/status.proto for
`error_detail`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import msgspec

from mesh_protowire import (
    Span,
    WireError,
    bytes_field,
    joined,
    scan,
    string_field,
    text,
    varint_field,
)
from xds_proxy.protocol._shown import shorten

SERVICE = "envoy.service.discovery.v3.AggregatedDiscoveryService"
_STATUS_CODE, _STATUS_MESSAGE = 1, 2
_INTERNAL = 13
_ANY_VALUE = 2
_RESOURCES = 2  # the same number in both responses
_DELTA_RESOURCE_BODY = 2

_CONTROL_PLANE_IDENTIFIER = 1

_NOTHING: Mapping[str, str] = {}
_LONGEST_IDENTIFIER_BYTES = 4096


class Request(NamedTuple):
    """The fields of a discovery request that the relay reads.

    error: a NACK's message, else None.
    names_versions: it names versions of resources that Envoy has.
    node: the serialised node; empty without one.
    changes: positions of the names that a delta request subscribes to or unsubscribes from, by
        field number, and of the versions that it names.
    """

    type_url: str
    nonce: str
    error: str | None
    names_versions: bool
    node: bytes
    changes: Mapping[int, Sequence[Span]]


class Response(NamedTuple):
    """The fields of a discovery response that the relay reads.

    control_plane: the identifier by which the control plane describes itself; empty if it sent
        none, or one of more than 4096 bytes, or one that is damaged.
    """

    type_url: str
    version: str
    nonce: str
    control_plane: str


class Dialect(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One dialect. A field number of 0 means that its messages have no such field.

    request_subscribe: the names that a request subscribes to; in state of the world, all of them.
    """

    name: str
    method: str
    request_node: int
    request_type_url: int
    request_version: int
    request_subscribe: int
    request_unsubscribe: int
    request_held_versions: int
    request_nonce: int
    request_error: int
    response_version: int
    response_type_url: int
    response_nonce: int
    response_control_plane: int
    resources_are_wrapped: bool

    @cached_property
    def _of_request(self) -> frozenset[int]:
        """The fields of a request that are read."""
        read = {
            self.request_node,
            self.request_type_url,
            self.request_held_versions,
            self.request_nonce,
            self.request_error,
        }
        if self.request_unsubscribe:
            read |= {self.request_subscribe, self.request_unsubscribe}
        return frozenset(read)

    @cached_property
    def _of_response(self) -> frozenset[int]:
        """The fields of a response that are read."""
        return frozenset(
            {
                self.response_type_url,
                self.response_version,
                self.response_nonce,
                self.response_control_plane,
            }
        )

    @property
    def path(self) -> str:
        """The gRPC method's path."""
        return f"/{SERVICE}/{self.method}"

    def read_request(self, data: bytes) -> Request:
        """Read a few fields of a request. Raises WireError."""
        found = scan(data, self._of_request)
        held_versions = found.get(self.request_held_versions, ())
        node = found.get(self.request_node)
        return Request(
            type_url=text(data, found.get(self.request_type_url)),
            nonce=text(data, found.get(self.request_nonce)),
            error=_error_message(data, found.get(self.request_error)),
            names_versions=any(start < end for start, end in held_versions)
            if held_versions
            else False,
            node=joined(data, node) if node else b"",
            changes=found,
        )

    def read_response(self, data: bytes) -> Response:
        """Read a few fields of a response. Raises WireError."""
        found = scan(data, self._of_response)
        return Response(
            type_url=text(data, found.get(self.response_type_url)),
            version=text(data, found.get(self.response_version)),
            nonce=text(data, found.get(self.response_nonce)),
            control_plane=_identifier(data, found.get(self.response_control_plane)),
        )

    def write_request(
        self,
        *,
        type_url: str,
        names: Sequence[str] = (),
        version: str = "",
        nonce: str = "",
        error: str | None = None,
        held: Mapping[str, str] = _NOTHING,
    ) -> bytes:
        """Return a request of the agent's own: a subscription, an ACK, or with `error` a NACK.

        It needs no node, as Envoy's first request on the stream had one.

        names: that are subscribed to; without any, all resources of the type.
        version: in use, for state of the world. held: version by name of each resource that is in
        use, for delta's first request.
        """
        request = string_field(self.request_type_url, type_url) + string_field(
            self.request_nonce, nonce
        )
        # A repeated field has its empty strings too.
        request += b"".join(bytes_field(self.request_subscribe, name.encode()) for name in names)
        if self.request_version:
            request += string_field(self.request_version, version)
        else:
            request += b"".join(
                bytes_field(
                    self.request_held_versions,
                    bytes_field(1, name.encode()) + bytes_field(2, held_version.encode()),
                )
                for name, held_version in held.items()
            )
        if error is not None:
            status = varint_field(_STATUS_CODE, _INTERNAL) + string_field(
                _STATUS_MESSAGE, shorten(error)
            )
            request += bytes_field(self.request_error, status)
        return request

    def state_of_the_world(self, data: bytes) -> bytes:
        """Return a response as the `DiscoveryResponse` that interceptors read. Raises WireError."""
        if not self.resources_are_wrapped:
            return data
        peeked = self.read_response(data)
        parts = [string_field(STATE_OF_THE_WORLD.response_version, peeked.version)]
        for start, end in scan(data, {_RESOURCES}).get(_RESOURCES, ()):
            resource = data[start:end]
            bodies = scan(resource, {_DELTA_RESOURCE_BODY}).get(_DELTA_RESOURCE_BODY, ())
            if bodies:
                parts.append(bytes_field(_RESOURCES, joined(resource, bodies)))
        parts.append(string_field(STATE_OF_THE_WORLD.response_type_url, peeked.type_url))
        parts.append(string_field(STATE_OF_THE_WORLD.response_nonce, peeked.nonce))
        return b"".join(parts)


STATE_OF_THE_WORLD = Dialect(
    name="state of the world",
    method="StreamAggregatedResources",
    request_node=2,
    request_subscribe=3,
    request_unsubscribe=0,
    request_version=1,
    request_held_versions=1,
    request_type_url=4,
    request_nonce=5,
    request_error=6,
    response_version=1,
    response_type_url=4,
    response_nonce=5,
    response_control_plane=6,
    resources_are_wrapped=False,
)

DELTA = Dialect(
    name="delta",
    method="DeltaAggregatedResources",
    request_node=1,
    request_subscribe=3,
    request_unsubscribe=4,
    request_version=0,
    request_held_versions=5,
    request_type_url=2,
    request_nonce=6,
    request_error=7,
    response_version=1,
    response_type_url=4,
    response_nonce=5,
    response_control_plane=7,
    resources_are_wrapped=True,
)

DIALECTS = (STATE_OF_THE_WORLD, DELTA)


def resource_bodies(response: bytes) -> tuple[bytes, ...]:
    """Return the serialised messages in a `DiscoveryResponse`: each resource's `Any.value`.

    Raises:
        WireError: the bytes are not a message.
    """
    bodies = []
    for start, end in scan(response, {_RESOURCES}).get(_RESOURCES, ()):
        resource = response[start:end]
        values = scan(resource, {_ANY_VALUE}).get(_ANY_VALUE)
        first, last = values[-1] if values else (0, 0)
        bodies.append(resource[first:last])
    return tuple(bodies)


def _error_message(data: bytes, spans: list[Span] | None) -> str | None:
    if spans is None:
        return None
    status = joined(data, spans)
    found = scan(status, {_STATUS_MESSAGE}).get(_STATUS_MESSAGE) or [(0, 0)]
    # Words for people, which may quote anything.
    return status[slice(*found[-1])].decode(errors="replace")


def _identifier(data: bytes, spans: list[Span] | None) -> str:
    """Return the identifier in a `ControlPlane`; empty if there is none that can be shown.

    Only a status page depends on it, so a damaged one ends no stream.
    """
    if spans is None:
        return ""
    # A little more than the identifier alone, for its tag and length.
    if sum(end - start for start, end in spans) > 2 * _LONGEST_IDENTIFIER_BYTES:
        return ""
    return _identifier_in(joined(data, spans))


@lru_cache(maxsize=4)  # each response of a control plane has the same
def _identifier_in(message: bytes) -> str:
    try:
        found = scan(message, {_CONTROL_PLANE_IDENTIFIER}).get(_CONTROL_PLANE_IDENTIFIER)
        if not found or found[-1][1] - found[-1][0] > _LONGEST_IDENTIFIER_BYTES:
            return ""
        return text(message, found)
    except WireError:
        return ""
