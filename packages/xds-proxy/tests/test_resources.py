"""A response's resources are what protobuf's own parser reads, and are written as it writes."""

from __future__ import annotations

import pytest
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.core.v3 import extension_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_components_pb2, route_pb2, scoped_route_pb2
from envoy.extensions.transport_sockets.tls.v3 import secret_pb2
from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf import any_pb2
from hypothesis import given
from hypothesis import strategies as st

from xds_proxy import WireError
from xds_proxy.protocol._dialect import DELTA, STATE_OF_THE_WORLD
from xds_proxy.protocol._resources import (
    Resource,
    names_of,
    removed_of,
    resources_of,
    with_bodies,
    write_response,
)

_text = st.text(max_size=60)
_NAMED = (
    cluster_pb2.Cluster,
    listener_pb2.Listener,
    route_pb2.RouteConfiguration,
    route_components_pb2.VirtualHost,
    scoped_route_pb2.ScopedRouteConfiguration,
    secret_pb2.Secret,
    extension_pb2.TypedExtensionConfig,
)


@st.composite
def bodies(draw: st.DrawFn) -> any_pb2.Any:
    """A real resource, whose name is drawn."""
    name = draw(_text)
    body = any_pb2.Any()
    kind = draw(st.sampled_from((*_NAMED, endpoint_pb2.ClusterLoadAssignment)))
    if kind is endpoint_pb2.ClusterLoadAssignment:
        body.Pack(endpoint_pb2.ClusterLoadAssignment(cluster_name=name))
    else:
        body.Pack(kind(name=name))
    if draw(st.booleans()):
        wrapper = discovery_pb2.Resource(name=name, resource=body)
        wrapper.ttl.seconds = 5
        body = any_pb2.Any()
        body.Pack(wrapper)
    return body


def _name_inside(body: any_pb2.Any) -> str:
    for kind in (*_NAMED, endpoint_pb2.ClusterLoadAssignment, discovery_pb2.Resource):
        message = kind()
        if body.Unpack(message):
            return str(getattr(message, "cluster_name", None) or getattr(message, "name", ""))
    raise AssertionError(body.type_url)


@st.composite
def sotw_responses(draw: st.DrawFn) -> discovery_pb2.DiscoveryResponse:
    message = discovery_pb2.DiscoveryResponse(
        version_info=draw(_text),
        type_url=draw(_text),
        nonce=draw(_text),
        canary=draw(st.booleans()),
        resources=draw(st.lists(bodies(), max_size=6)),
    )
    message.control_plane.identifier = draw(_text)
    return message


@st.composite
def delta_responses(draw: st.DrawFn) -> discovery_pb2.DeltaDiscoveryResponse:
    message = discovery_pb2.DeltaDiscoveryResponse(
        system_version_info=draw(_text),
        type_url=draw(_text),
        nonce=draw(_text),
        removed_resources=draw(st.lists(_text, max_size=4)),
    )
    for body in draw(st.lists(bodies(), max_size=6)):
        resource = message.resources.add(name=_name_inside(body), version=draw(_text))
        if draw(st.booleans()):
            resource.resource.CopyFrom(body)
        if draw(st.booleans()):
            resource.ttl.seconds = draw(st.integers(0, 100))
        resource.aliases.extend(draw(st.lists(_text, max_size=2)))
    for name in draw(st.lists(_text, max_size=2)):
        message.removed_resource_names.add(name=name)
    return message


@given(sotw_responses())
def test_resources_are_read_as_protobuf_reads_them(
    message: discovery_pb2.DiscoveryResponse,
) -> None:
    data = message.SerializeToString()
    found = resources_of(STATE_OF_THE_WORLD, data)
    assert [any_pb2.Any.FromString(each.body) for each in found] == list(message.resources)
    assert [each.name for each in found] == [_name_inside(each) for each in message.resources]
    assert list(names_of(STATE_OF_THE_WORLD, data)) == [(each.name, "") for each in found]
    assert removed_of(STATE_OF_THE_WORLD, data) == ()


@given(delta_responses())
def test_delta_resources_are_read_as_protobuf_reads_them(
    message: discovery_pb2.DeltaDiscoveryResponse,
) -> None:
    data = message.SerializeToString()
    found = resources_of(DELTA, data)
    assert [(each.name, each.version) for each in found] == [
        (each.name, each.version) for each in message.resources
    ]
    assert [any_pb2.Any.FromString(each.body) for each in found] == [
        each.resource for each in message.resources
    ]
    assert list(names_of(DELTA, data)) == [(each.name, each.version) for each in found]
    assert sorted(removed_of(DELTA, data)) == sorted(
        [*message.removed_resources, *(each.name for each in message.removed_resource_names)]
    )


@given(sotw_responses())
def test_what_is_written_is_read_by_protobuf(message: discovery_pb2.DiscoveryResponse) -> None:
    found = resources_of(STATE_OF_THE_WORLD, message.SerializeToString())
    written = discovery_pb2.DiscoveryResponse.FromString(
        write_response(
            STATE_OF_THE_WORLD,
            type_url=message.type_url,
            version=message.version_info,
            nonce=message.nonce,
            resources=found,
        )
    )
    message.ClearField("control_plane")
    message.ClearField("canary")
    assert written == message


@given(delta_responses())
def test_what_is_written_in_delta_is_read_by_protobuf(
    message: discovery_pb2.DeltaDiscoveryResponse,
) -> None:
    data = message.SerializeToString()
    written = discovery_pb2.DeltaDiscoveryResponse.FromString(
        write_response(
            DELTA,
            type_url=message.type_url,
            version=message.system_version_info,
            nonce=message.nonce,
            resources=resources_of(DELTA, data),
            removed=removed_of(DELTA, data),
        )
    )
    message.removed_resources.extend(each.name for each in message.removed_resource_names)
    message.ClearField("removed_resource_names")
    for written_one, one in zip(written.resources, message.resources, strict=True):
        if not written_one.HasField("resource"):
            one.ClearField("resource")  # an empty Any is one that only prolongs a time to live
    assert written == message


@given(sotw_responses(), st.data())
def test_only_bodies_are_replaced(
    message: discovery_pb2.DiscoveryResponse, data: st.DataObject
) -> None:
    raw = message.SerializeToString()
    old = [each.body for each in resources_of(STATE_OF_THE_WORLD, raw)]
    assert with_bodies(STATE_OF_THE_WORLD, raw, old) is raw
    new = [data.draw(bodies()) for _ in old]
    written = with_bodies(STATE_OF_THE_WORLD, raw, [each.SerializeToString() for each in new])
    del message.resources[:]
    message.resources.extend(new)
    assert discovery_pb2.DiscoveryResponse.FromString(written) == message


@given(delta_responses(), st.data())
def test_only_bodies_are_replaced_in_delta(
    message: discovery_pb2.DeltaDiscoveryResponse, data: st.DataObject
) -> None:
    raw = message.SerializeToString()
    assert with_bodies(DELTA, raw, [each.body for each in resources_of(DELTA, raw)]) is raw
    for each in message.resources:
        each.resource.CopyFrom(data.draw(bodies()))
    new = [each.resource.SerializeToString() for each in message.resources]
    assert discovery_pb2.DeltaDiscoveryResponse.FromString(with_bodies(DELTA, raw, new)) == message


def test_another_number_of_bodies_is_refused() -> None:
    raw = discovery_pb2.DiscoveryResponse(resources=[any_pb2.Any()]).SerializeToString()
    for number in (0, 2):
        with pytest.raises(ValueError, match="another number"):
            with_bodies(STATE_OF_THE_WORLD, raw, [b""] * number)


def test_a_body_that_is_no_resource_has_no_name() -> None:
    """Whether a resource is valid is for Envoy to say."""
    for value in (b"\xff\xff\xff", b"\x0a\x02\xff\xfe", b"", b"\x08\x01"):
        raw = discovery_pb2.DiscoveryResponse(
            resources=[any_pb2.Any(type_url="a/b", value=value)]
        ).SerializeToString()
        (resource,) = resources_of(STATE_OF_THE_WORLD, raw)
        assert resource.name == ""


@given(st.binary(max_size=200), st.sampled_from((STATE_OF_THE_WORLD, DELTA)))
def test_any_bytes_are_read_or_refused(data: bytes, dialect: object) -> None:
    assert dialect in (STATE_OF_THE_WORLD, DELTA)
    chosen = DELTA if dialect is DELTA else STATE_OF_THE_WORLD
    for read in (resources_of, removed_of, lambda d, r: list(names_of(d, r))):
        try:
            read(chosen, data)
        except WireError:
            continue


def test_a_resource_is_a_plain_value() -> None:
    assert Resource("a", "v1", b"x") == Resource(name="a", version="v1", body=b"x", more=b"")
