"""Requests are read the same by hand and by protobuf's library."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from envoy.config.core.v3 import base_pb2
from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from mesh_protowire import fields
from xds_server._errors import BadRequest
from xds_server.protocol._name_runs import (
    MOST_BYTES,
    MOST_RUNS,
    NAME_RUNS,
    NAME_TAG,
    NameRuns,
)
from xds_server.protocol._request import Parsed, SotwRequest
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


_MANY = [f"outbound|80||service-{n}.default.svc.cluster.local" for n in range(50)]


@given(
    lists=st.lists(
        st.tuples(
            st.text(max_size=140),
            st.integers(0, 50),
            st.integers(0, 50),
            _names,
            st.sampled_from(["", "eds", "cds"]),
            _texts,
            st.booleans(),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_names_that_were_read_before_are_found_as_the_library_reads_them(
    lists: list[tuple[str, int, int, list[str], str, str, bool]],
) -> None:
    for version, start, end, further, type_url, nonce, refused in lists:
        message = discovery_pb2.DiscoveryRequest(
            version_info=version,
            resource_names=[*_MANY[start:end], *further],
            type_url=type_url,
            response_nonce=nonce,
        )
        if refused:
            message.error_detail.message = nonce
        whole = message.SerializeToString()
        later = discovery_pb2.DiscoveryRequest(resource_names=["later"]).SerializeToString()
        for data in (whole, whole, whole + later, whole[:-1]):
            expected = _or_none(parse_sotw_message, data)
            assert _or_none(parse_sotw, data) == expected


def _or_none(parse: Callable[..., Parsed], data: bytes) -> Parsed | None:
    try:
        return parse(data, with_node=False)
    except BadRequest:
        return None


def test_many_names_are_read_once_for_all_acknowledgements() -> None:
    def acknowledgement(nonce: str, *more: str) -> bytes:
        request = discovery_pb2.DiscoveryRequest(
            version_info="1", resource_names=[*_MANY, "once", *more], response_nonce=nonce
        )
        return request.SerializeToString()

    parse_sotw(acknowledgement("1"), with_node=False)
    found = NAME_RUNS.found
    for nonce in "23":
        parsed = parse_sotw(acknowledgement(nonce), with_node=False).request
        assert isinstance(parsed, SotwRequest)
        assert (parsed.nonce, len(parsed.names)) == (nonce, 51)
    assert NAME_RUNS.found == found + 2
    more = parse_sotw(acknowledgement("4", "more"), with_node=False).request
    assert isinstance(more, SotwRequest)
    assert "more" in more.names
    assert NAME_RUNS.found == found + 2


def test_few_runs_of_names_are_kept_and_no_very_long_one() -> None:
    runs = NameRuns()
    for number in range(MOST_RUNS + 1):
        runs.keep(bytes([NAME_TAG, 1, number]), 0, 3, frozenset({chr(number)}))
    assert runs.find(bytes([NAME_TAG, 1, 0]), 0) is None
    assert runs.find(bytes([NAME_TAG, 1, 1]), 0) == (3, frozenset({"\x01"}))
    long = bytes([NAME_TAG]) + bytes(MOST_BYTES)
    runs.keep(long, 0, len(long), frozenset({"long"}))
    assert runs.find(long, 0) is None
