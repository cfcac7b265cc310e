"""Any bytes as discovery messages, as the relay peeks at them, beside protobuf's own parser.

What protobuf reads, the reader reads, with the same content; what protobuf refuses, it may read or
refuse with a WireError. One difference is wanted: groups, which discovery messages do not have, are
refused. A response that is taken apart and written again has the same content, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from envoy.service.discovery.v3 import discovery_pb2 as pb
from google.protobuf.message import DecodeError

from mesh_protowire import WireError, bytes_field, scan
from xds_proxy.protocol._dialect import DELTA, STATE_OF_THE_WORLD, resource_bodies
from xds_proxy.protocol._resources import (
    names_of,
    removed_of,
    resources_of,
    with_bodies,
    write_response,
)

TYPE = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
_Message = (
    pb.DiscoveryRequest
    | pb.DeltaDiscoveryRequest
    | pb.DiscoveryResponse
    | pb.DeltaDiscoveryResponse
)


def parsed(kind: Callable[[bytes], _Message], data: bytes) -> _Message | None:
    try:
        return kind(data)
    except DecodeError:
        return None


def check_sotw_request(data: bytes, message: pb.DiscoveryRequest | None) -> None:
    peeked = STATE_OF_THE_WORLD.read_request(data)
    if message is not None:
        assert peeked.type_url == message.type_url
        assert peeked.nonce == message.response_nonce
        assert peeked.names_versions == (message.version_info != "")
        check_error(peeked.error, message)


def check_delta_request(data: bytes, message: pb.DeltaDiscoveryRequest | None) -> None:
    peeked = DELTA.read_request(data)
    if message is not None:
        assert (peeked.type_url, peeked.nonce) == (message.type_url, message.response_nonce)
        check_error(peeked.error, message)


def check_error(error: str | None, message: pb.DiscoveryRequest | pb.DeltaDiscoveryRequest) -> None:
    assert (error is not None) == message.HasField("error_detail")
    if error is not None:
        assert error == message.error_detail.message[:4096]


def check_sotw_response(data: bytes, message: pb.DiscoveryResponse | None) -> None:
    peeked = STATE_OF_THE_WORLD.read_response(data)
    found = resources_of(STATE_OF_THE_WORLD, data)
    bodies = resource_bodies(data)
    assert [name for name, _ in names_of(STATE_OF_THE_WORLD, data)] == [r.name for r in found]
    assert with_bodies(STATE_OF_THE_WORLD, data, [each.body for each in found]) is data
    if message is None:
        return
    assert (peeked.type_url, peeked.version) == (message.type_url, message.version_info)
    assert peeked.nonce == message.nonce
    assert bodies == tuple(each.value for each in message.resources)
    again = pb.DiscoveryResponse.FromString(
        write_response(
            STATE_OF_THE_WORLD,
            type_url=peeked.type_url,
            version=peeked.version,
            nonce=peeked.nonce,
            resources=found,
        )
    )
    assert again.resources == message.resources


def check_delta_response(data: bytes, message: pb.DeltaDiscoveryResponse | None) -> None:
    peeked = DELTA.read_response(data)
    found = resources_of(DELTA, data)
    removed = removed_of(DELTA, data)
    converted = DELTA.state_of_the_world(data)
    assert list(names_of(DELTA, data)) == [(each.name, each.version) for each in found]
    assert with_bodies(DELTA, data, [each.body for each in found]) is data
    if message is None:
        return
    assert (peeked.type_url, peeked.version) == (message.type_url, message.system_version_info)
    assert peeked.nonce == message.nonce
    expected = [*message.removed_resources, *(each.name for each in message.removed_resource_names)]
    assert list(removed) == expected
    assert [(r.name, r.version) for r in found] == [(m.name, m.version) for m in message.resources]
    again = pb.DeltaDiscoveryResponse.FromString(
        write_response(
            DELTA,
            type_url=peeked.type_url,
            version=peeked.version,
            nonce=peeked.nonce,
            resources=found,
            removed=removed,
        )
    )
    for resource in message.resources:
        if not resource.resource.ByteSize():
            resource.ClearField("resource")  # an empty one counts as none
    assert again.resources == message.resources
    seen = pb.DiscoveryResponse.FromString(converted)
    assert [each for each in seen.resources if each.ByteSize()] == [
        each.resource for each in message.resources if each.HasField("resource")
    ]


CHECKS = (
    (pb.DiscoveryRequest, check_sotw_request),
    (pb.DeltaDiscoveryRequest, check_delta_request),
    (pb.DiscoveryResponse, check_sotw_response),
    (pb.DeltaDiscoveryResponse, check_delta_response),
)


def check(data: bytes) -> None:
    """The first byte says which message the others are."""
    if not data:
        return
    kind, check_message = CHECKS[data[0] % len(CHECKS)]
    data = data[1:]
    message = parsed(kind.FromString, data)
    try:
        check_message(data, message)  # type: ignore[arg-type]  # the check is that of the kind
    except WireError as error:
        assert message is None or "wire type" in str(error), f"only protobuf reads it: {error}"


def originals() -> Iterator[bytes]:
    """Messages as Envoy and control planes send them, each with the byte of its kind."""
    sotw = pb.DiscoveryRequest(type_url=TYPE, version_info="7", response_nonce="n" * 40)
    sotw.node.id = "sidecar~10.0.0.1~web.default~default.svc.cluster.local"
    sotw.resource_names.extend(["outbound|80||web", "*"])
    sotw.error_detail.message = "refused: \N{GREEK SMALL LETTER ALPHA}"
    delta = pb.DeltaDiscoveryRequest(type_url=TYPE, response_nonce="n")
    delta.initial_resource_versions["a"] = "1"
    delta.resource_names_unsubscribe.append("b")
    response = pb.DiscoveryResponse(type_url=TYPE, version_info="7", nonce="n", canary=True)
    response.control_plane.identifier = '{"Component":"istiod"}'
    changes = pb.DeltaDiscoveryResponse(type_url=TYPE, system_version_info="7", nonce="n")
    changes.removed_resources.append("gone")
    changes.removed_resource_names.add(name="gone too")
    for name in ("a", "outbound|80||web"):
        body = bytes_field(1, name.encode()) + b"\x10\x05\x1d\0\0\0\0"
        response.resources.add(type_url=TYPE, value=body)
        wrapped = changes.resources.add(name=name, version="3", aliases=["c"])
        wrapped.resource.CopyFrom(response.resources[-1])
        wrapped.ttl.seconds = 5
    for number, message in enumerate((sotw, delta, response, changes)):
        whole = message.SerializeToString()
        yield bytes([number]) + whole
        yield bytes([number]) + whole + whole  # fields that come twice
        yield bytes([number]) + whole + b"\xba\x3e\x02hi\xc0\x3e\x96\x01"  # of a later release
        assert scan(whole, frozenset({4}))
