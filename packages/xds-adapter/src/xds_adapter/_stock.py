"""Configurations of extensions that every Envoy has, in the place of those that it lacks.

Serialised `google.protobuf.Any`s. Field numbers: the `.proto` files that the types are named after;
a test reads each of them with Envoy's own classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mesh_protowire import Packed, bytes_field, encode_struct, string_field, varint_field

TYPES: Final = "type.googleapis.com/"

_FILTERS = "envoy.extensions.filters.http."
SET_FILTER_STATE: Final = _FILTERS + "set_filter_state.v3.Config"
HEADER_MUTATION: Final = _FILTERS + "header_mutation.v3.HeaderMutation"
RBAC: Final = _FILTERS + "rbac.v3.RBAC"
NETWORK_RBAC: Final = "envoy.extensions.filters.network.rbac.v3.RBAC"

APPLICATION_PROTOCOLS: Final = "envoy.network.application_protocols"
"""The filter state by which a request sets what its TLS connection upstream offers."""

METADATA: Final = "xds_adapter"
"""Of a cluster's metadata: what `alpn_from_cluster` reads."""

_ALPN = "alpn"
_ONCE = 1  # FilterStateValue.SharedWithUpstream
_PEER_HEADERS = ("x-envoy-peer-metadata", "x-envoy-peer-metadata-id")


def packed(type_name: str, value: bytes = b"") -> bytes:
    """Return a message as a serialised `Any`."""
    return Packed(TYPES + type_name, value).pack()


def alpn_from_cluster() -> bytes:
    """Return the filter that offers upstream what the metadata of the request's cluster says.

    Without such metadata, the cluster's own list is offered.
    """
    return _set_filter_state(
        {APPLICATION_PROTOCOLS: f"%CLUSTER_METADATA({METADATA}:{_ALPN})%"}, skip_if_empty=True
    )


def alpn_metadata(protocols: Sequence[str]) -> bytes:
    """Return the metadata of a cluster for `alpn_from_cluster`: a serialised `core.v3.Metadata`."""
    content = encode_struct({_ALPN: ",".join(protocols)})
    return bytes_field(1, string_field(1, METADATA) + bytes_field(2, content))


def destination_from_authority() -> bytes:
    """Return the filter that lets `:authority` be the original destination."""
    return _set_filter_state(
        {
            "envoy.filters.listener.original_dst.local_ip": "%REQ(:AUTHORITY)%",
            "envoy.filters.listener.original_dst.remote_ip": "%DOWNSTREAM_REMOTE_ADDRESS%",
        },
        skip_if_empty=False,
    )


def _set_filter_state(values: dict[str, str], *, skip_if_empty: bool) -> bytes:
    content = b""
    for key, format_text in values.items():
        text_source = bytes_field(5, string_field(3, format_text))
        omit_empty = varint_field(3, 1) if skip_if_empty else b""
        value = (
            string_field(1, key)
            + bytes_field(2, omit_empty + text_source)
            + varint_field(4, _ONCE)
            + (varint_field(5, 1) if skip_if_empty else b"")
        )
        content += bytes_field(1, value)
    return packed(SET_FILTER_STATE, content)


def without_peer_headers() -> bytes:
    """Return the filter that removes the headers by which Istio's proxies describe themselves."""
    removals = [string_field(1, name) for name in _PEER_HEADERS]
    mutations = b"".join(bytes_field(number, removal) for number in (1, 2) for removal in removals)
    return packed(HEADER_MUTATION, bytes_field(1, mutations))


def deny_all() -> bytes:
    """Return the filter that answers every request with 403: rules that allow none."""
    return packed(RBAC, bytes_field(1, b""))


def require_client_certificate() -> bytes:
    """Return the filter that allows requests whose client has shown a verified certificate."""
    authenticated = bytes_field(4, b"")  # of Principal; without a name, any
    policy = bytes_field(1, varint_field(3, 1)) + bytes_field(2, authenticated)
    entry = string_field(1, "client-certificate") + bytes_field(2, policy)
    return packed(RBAC, bytes_field(1, bytes_field(2, entry)))


def no_op() -> bytes:
    """Return an HTTP filter that does nothing."""
    return packed(RBAC)


def network_no_op() -> bytes:
    """Return a network filter that does nothing."""
    return packed(NETWORK_RBAC, string_field(3, "xds_adapter."))
