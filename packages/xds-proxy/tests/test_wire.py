"""What is peeked from the wire equals what protobuf's own parser reads."""

from __future__ import annotations

import pytest
from envoy.service.discovery.v3 import discovery_pb2
from hypothesis import given
from hypothesis import strategies as st

from mesh_protowire import bytes_field
from xds_proxy import WireError, resource_bodies
from xds_proxy.protocol._dialect import DELTA, STATE_OF_THE_WORLD

_text = st.text(max_size=200)
_errors = st.none() | _text
_Request = discovery_pb2.DiscoveryRequest | discovery_pb2.DeltaDiscoveryRequest
_Response = discovery_pb2.DiscoveryResponse | discovery_pb2.DeltaDiscoveryResponse


def _set_error(message: _Request, error: str | None) -> None:
    if error is not None:
        message.error_detail.code = 13
        message.error_detail.message = error


def _set_identifier(message: _Response, identifier: str | None) -> None:
    if identifier is not None:
        message.control_plane.identifier = identifier


@st.composite
def sotw_requests(draw: st.DrawFn) -> discovery_pb2.DiscoveryRequest:
    message = discovery_pb2.DiscoveryRequest(
        version_info=draw(_text),
        type_url=draw(_text),
        response_nonce=draw(_text),
        resource_names=draw(st.lists(_text, max_size=20)),
    )
    message.node.id = draw(_text)
    _set_error(message, draw(_errors))
    return message


@st.composite
def delta_requests(draw: st.DrawFn) -> discovery_pb2.DeltaDiscoveryRequest:
    message = discovery_pb2.DeltaDiscoveryRequest(
        type_url=draw(_text),
        response_nonce=draw(_text),
        resource_names_subscribe=draw(st.lists(_text, max_size=20)),
        resource_names_unsubscribe=draw(st.lists(_text, max_size=20)),
        initial_resource_versions=draw(st.dictionaries(_text, _text, max_size=5)),
    )
    _set_error(message, draw(_errors))
    return message


@st.composite
def sotw_responses(draw: st.DrawFn) -> discovery_pb2.DiscoveryResponse:
    message = discovery_pb2.DiscoveryResponse(
        version_info=draw(_text),
        type_url=draw(_text),
        nonce=draw(_text),
        canary=draw(st.booleans()),
    )
    _set_identifier(message, draw(st.none() | _text))
    for body in draw(st.lists(st.binary(max_size=300), max_size=10)):
        message.resources.add(type_url=message.type_url, value=body)
    return message


@st.composite
def delta_responses(draw: st.DrawFn) -> discovery_pb2.DeltaDiscoveryResponse:
    message = discovery_pb2.DeltaDiscoveryResponse(
        system_version_info=draw(_text),
        type_url=draw(_text),
        nonce=draw(_text),
        removed_resources=draw(st.lists(_text, max_size=10)),
    )
    _set_identifier(message, draw(st.none() | _text))
    for body in draw(st.lists(st.binary(max_size=300), max_size=10)):
        resource = message.resources.add(name=draw(_text), version=draw(_text))
        resource.resource.type_url = message.type_url
        resource.resource.value = body
    return message


def _error_of(message: _Request) -> str | None:
    return message.error_detail.message if message.HasField("error_detail") else None


@given(sotw_requests())
def test_a_request_is_read_as_protobuf_reads_it(message: discovery_pb2.DiscoveryRequest) -> None:
    peeked = STATE_OF_THE_WORLD.read_request(message.SerializeToString())
    assert (peeked.type_url, peeked.names_versions, peeked.nonce, peeked.error) == (
        message.type_url,
        message.version_info != "",
        message.response_nonce,
        _error_of(message),
    )


@given(delta_requests())
def test_a_delta_request_is_read_as_protobuf_reads_it(
    message: discovery_pb2.DeltaDiscoveryRequest,
) -> None:
    peeked = DELTA.read_request(message.SerializeToString())
    assert (peeked.type_url, peeked.names_versions, peeked.nonce, peeked.error) == (
        message.type_url,
        len(message.initial_resource_versions) > 0,
        message.response_nonce,
        _error_of(message),
    )


@given(sotw_responses(), st.lists(_text, max_size=2), st.lists(_text, max_size=2))
def test_a_response_is_read_as_protobuf_reads_it(
    message: discovery_pb2.DiscoveryResponse, nonces: list[str], identifiers: list[str]
) -> None:
    """Also when fields are appended to it, which is how a server shares bytes between clients."""
    appended = [discovery_pb2.DiscoveryResponse(nonce=nonce) for nonce in nonces]
    for identifier in identifiers:
        appended.append(discovery_pb2.DiscoveryResponse())
        appended[-1].control_plane.identifier = identifier
    data = b"".join(each.SerializeToString() for each in (message, *appended))
    parsed = discovery_pb2.DiscoveryResponse.FromString(data)
    peeked = STATE_OF_THE_WORLD.read_response(data)
    assert (peeked.type_url, peeked.version, peeked.nonce, peeked.control_plane) == (
        parsed.type_url,
        parsed.version_info,
        parsed.nonce,
        parsed.control_plane.identifier,
    )
    assert resource_bodies(data) == tuple(resource.value for resource in parsed.resources)


@given(delta_responses())
def test_a_delta_response_becomes_a_state_of_the_world_response(
    message: discovery_pb2.DeltaDiscoveryResponse,
) -> None:
    data = message.SerializeToString()
    peeked = DELTA.read_response(data)
    assert (peeked.type_url, peeked.version, peeked.nonce, peeked.control_plane) == (
        message.type_url,
        message.system_version_info,
        message.nonce,
        message.control_plane.identifier,
    )
    converted = discovery_pb2.DiscoveryResponse.FromString(DELTA.state_of_the_world(data))
    assert list(converted.resources) == [resource.resource for resource in message.resources]
    assert (converted.type_url, converted.version_info, converted.nonce) == (
        message.type_url,
        message.system_version_info,
        message.nonce,
    )


@pytest.mark.parametrize(
    ("control_plane", "read"),
    [
        (b"", ""),
        (b"\x0a\x03abc", "abc"),
        (b"\x0a\x80\x20" + b"x" * 4096, "x" * 4096),
        (b"\x0a\x81\x20" + b"x" * 4097, ""),
        (b"\x12\x80\xc0\x00" + b"x" * 8192 + b"\x0a\x03abc", ""),  # too much besides it
        (b"\x0a\x05abc", ""),  # cut short
        (b"\x0a\x02\xff\xfe", ""),  # not UTF-8
    ],
)
def test_an_identifier_of_the_control_plane_is_read_within_bounds_and_ends_no_stream(
    control_plane: bytes, read: str
) -> None:
    for dialect in (STATE_OF_THE_WORLD, DELTA):
        data = bytes_field(dialect.response_control_plane, control_plane)
        assert dialect.read_response(data).control_plane == read


@given(_text, _text, _text, _errors)
def test_own_requests_are_read_by_protobuf(
    type_url: str, version: str, nonce: str, error: str | None
) -> None:
    for dialect, kind in (
        (STATE_OF_THE_WORLD, discovery_pb2.DiscoveryRequest),
        (DELTA, discovery_pb2.DeltaDiscoveryRequest),
    ):
        message = kind.FromString(
            dialect.write_request(type_url=type_url, version=version, nonce=nonce, error=error)
        )
        assert (message.type_url, message.response_nonce) == (type_url, nonce)
        assert _error_of(message) == error
        if isinstance(message, discovery_pb2.DiscoveryRequest):
            assert message.version_info == version


@given(st.binary(max_size=300))
def test_any_bytes_are_read_as_protobuf_does_or_refused(data: bytes) -> None:
    try:
        peeked = STATE_OF_THE_WORLD.read_response(data)
    except WireError:
        return
    try:
        parsed = discovery_pb2.DiscoveryResponse.FromString(data)
    except Exception:  # noqa: BLE001 - protobuf looks deeper, and may refuse what a peek need not
        return
    assert (peeked.type_url, peeked.version, peeked.nonce) == (
        parsed.type_url,
        parsed.version_info,
        parsed.nonce,
    )


@pytest.mark.parametrize(
    "data",
    [
        b"\x22\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a length of 11 bytes
        b"\x22\x05abc",  # a length past the end
        b"\x22",  # no length
        b"\x02\x01x",  # field number 0
        b"\x23\x24",  # a group
        b"\x22\x02\xff\xfe",  # a string that is not UTF-8
        b"\x09\x01",  # half a 64-bit number
    ],
)
def test_damaged_messages_are_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        STATE_OF_THE_WORLD.read_response(data)
