"""A message's fields, read off the wire."""

from __future__ import annotations

import pytest
from envoy.config.cluster.v3 import cluster_pb2
from google.protobuf.wrappers_pb2 import UInt64Value
from hypothesis import given
from hypothesis import strategies as st

from xds_server import Resource
from xds_server.protocol._references import endpoints_of
from xds_server.protocol._wire_fields import fields, varint


@given(st.integers(0, 2**64 - 1))
def test_a_number_is_what_protobuf_wrote(value: int) -> None:
    data = UInt64Value(value=value).SerializeToString()
    for field, start, end in fields(data):
        assert (field, varint(data, start)) == (1, (value, end))
    assert bool(data) == bool(value)


@given(st.text(max_size=300), st.floats(0, 1e6), st.integers(0, 2**32 - 1))
def test_fields_of_every_wire_type_are_told_with_their_places(
    name: str, seconds: float, window: int
) -> None:
    cluster = cluster_pb2.Cluster(name=name)
    cluster.connect_timeout.nanos = 5
    cluster.per_connection_buffer_limit_bytes.value = window
    cluster.outlier_detection.success_rate_stdev_factor.value = int(seconds)
    data = cluster.SerializeToString()
    told = list(fields(data))
    assert {each for each, _, _ in told} == {each.number for each, _ in cluster.ListFields()}
    assert [data[a:b].decode() for field, a, b in told if field == 1] == ([name] if name else [])
    assert list(fields(data, at_most=len(told))) == told
    with pytest.raises(ValueError, match="too many fields"):
        list(fields(data, at_most=len(told) - 1))


FIXED = b"\x09" + bytes(8) + b"\x15" + bytes(4)  # field 1 of 64 bits, field 2 of 32


def test_fixed_widths_are_stepped_over() -> None:
    assert list(fields(FIXED)) == [(1, 1, 9), (2, 10, 14)]


@pytest.mark.parametrize(
    "data", [FIXED, b"\x0a\x03abc", b"\x0a\x80\x01" + bytes(128), b"\x08\x80\x01"]
)
def test_what_is_cut_short_is_refused(data: bytes) -> None:
    whole = {0, *(end for _, _, end in fields(data))}
    for length in set(range(len(data))) - whole:
        with pytest.raises(ValueError, match="cut short"):
            list(fields(data[:length]))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x03", "tag 3"),
        (b"\x0b", "wire type 3"),
        (b"\xff\xff\xff\xff\x1f\x00", "tag"),
        (b"\x08" + b"\xff" * 11, "more than 10 bytes"),
    ],
)
def test_what_is_no_message_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        list(fields(data))


@given(st.binary(max_size=200))
def test_any_bytes_have_fields_or_are_refused(data: bytes) -> None:
    try:
        told = list(fields(data))
    except ValueError:
        return
    assert all(0 < start <= end <= len(data) for _, start, end in told)


def test_a_cluster_that_is_cut_short_waits_for_no_endpoints() -> None:
    cluster = cluster_pb2.Cluster(name="a", type=cluster_pb2.Cluster.EDS)
    cluster.eds_cluster_config.eds_config.ads.SetInParent()
    cluster.eds_cluster_config.service_name = "endpoints"
    body = cluster.SerializeToString()
    assert endpoints_of(Resource(name="a", type_url="t", version="1", body=body)) == "endpoints"
    assert endpoints_of(Resource(name="a", type_url="t", version="1", body=body[:-2])) is None
