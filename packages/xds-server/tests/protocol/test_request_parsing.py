"""Requests are read the same by hand and by protobuf's library."""

from __future__ import annotations

import subprocess
import sys

import pytest
from envoy.config.core.v3 import base_pb2
from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from mesh_protowire import fields
from xds_server._errors import BadRequest
from xds_server.protocol._request import Parsed
from xds_server.protocol._request_messages import parse_delta_message, parse_sotw_message
from xds_server.protocol._request_parsing import parse_delta, parse_sotw

_texts = st.text(max_size=8)
_names = st.lists(_texts, max_size=4)
_json = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def _nodes(draw: st.DrawFn) -> base_pb2.Node:
    node = base_pb2.Node(
        id=draw(_texts),
        cluster=draw(_texts),
        user_agent_name=draw(_texts),
        user_agent_version=draw(_texts),
    )
    node.locality.region = draw(_texts)
    node.locality.zone = draw(_texts)
    node.locality.sub_zone = draw(_texts)
    metadata = draw(st.dictionaries(_texts, _json, max_size=4))
    json_format.ParseDict(metadata, node.metadata)
    for name in draw(_names):
        node.extensions.add(name=name)
    return node


@st.composite
def _delta_requests(draw: st.DrawFn) -> bytes:
    message = discovery_pb2.DeltaDiscoveryRequest(
        type_url=draw(_texts),
        resource_names_subscribe=draw(_names),
        resource_names_unsubscribe=draw(_names),
        initial_resource_versions=draw(st.dictionaries(_texts, _texts, max_size=3)),
        response_nonce=draw(_texts),
    )
    if draw(st.booleans()):
        message.node.CopyFrom(draw(_nodes()))
    if draw(st.booleans()):
        message.error_detail.code = draw(st.integers(-(2**31), 2**31 - 1))
        message.error_detail.message = draw(_texts)
    data: bytes = message.SerializeToString()
    return data


@st.composite
def _sotw_requests(draw: st.DrawFn) -> bytes:
    message = discovery_pb2.DiscoveryRequest(
        type_url=draw(_texts),
        resource_names=draw(_names),
        version_info=draw(_texts),
        response_nonce=draw(_texts),
    )
    if draw(st.booleans()):
        message.node.CopyFrom(draw(_nodes()))
    if draw(st.booleans()):
        message.error_detail.code = draw(st.integers(0, 16))
        message.error_detail.message = draw(_texts)
    data: bytes = message.SerializeToString()
    return data


def _damaged(requests: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Return requests, some of them cut, or with other bytes in them or behind them."""

    @st.composite
    def damage(draw: st.DrawFn) -> bytes:
        data = draw(requests)
        at = draw(st.integers(0, len(data)))
        return data[:at] + draw(st.binary(max_size=4)) + data[at + draw(st.integers(0, 2)) :]

    return requests | damage()


@given(data=_damaged(_delta_requests()))
def test_delta_requests(data: bytes) -> None:
    outcomes = _outcome(parse_delta, data), _outcome(parse_delta_message, data)
    _check_alike(*outcomes, data, messages={1, 5, 7, 8, 9})


@given(data=_damaged(_sotw_requests()))
def test_requests_in_state_of_the_world(data: bytes) -> None:
    outcomes = _outcome(parse_sotw, data), _outcome(parse_sotw_message, data)
    _check_alike(*outcomes, data, messages={2, 6, 7})


@pytest.mark.parametrize("names", [11, 12, 5000])
def test_many_names_are_read_too(names: int) -> None:
    message = discovery_pb2.DiscoveryRequest(resource_names=[str(each) for each in range(names)])
    assert len(parse_sotw(message.SerializeToString()).request.names) == names  # type: ignore[union-attr]


def test_a_small_request_needs_no_protobuf() -> None:
    message = discovery_pb2.DiscoveryRequest(type_url="t", resource_names=["default", "ROOTCA"])
    message.node.id = "sidecar"
    message.node.metadata["LABELS"] = "some"
    program = f"""
import sys
import xds_server
from xds_server.protocol._request_parsing import parse_sotw
assert parse_sotw({message.SerializeToString()!r}).node.metadata == {{"LABELS": "some"}}
print([name for name in sys.modules if name.startswith(("google.protobuf", "envoy."))])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout == "[]\n"


def _outcome(parse: object, data: bytes) -> Parsed | str:
    assert callable(parse)
    try:
        parsed = parse(data, with_node=True)
    except BadRequest as refused:
        return str(refused)
    assert isinstance(parsed, Parsed)
    return parsed


def _check_alike(
    by_hand: Parsed | str, by_library: Parsed | str, data: bytes, *, messages: set[int]
) -> None:
    """messages: the fields that hold messages, of which we read a part, or nothing."""
    if isinstance(by_hand, Parsed) and isinstance(by_library, str):
        # The library looks also into what we ignore.
        assert messages & {each.number for each in fields(data)}
    else:
        assert by_hand == by_library
