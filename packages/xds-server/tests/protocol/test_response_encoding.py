"""Responses put together by hand are what protobuf would have encoded of them."""

from __future__ import annotations

from typing import Any

from envoy.config.cluster.v3 import cluster_pb2
from envoy.service.discovery.v3 import discovery_pb2
from hypothesis import given
from hypothesis import strategies as st

from xds_server import Resource
from xds_server._errors import StreamRefused
from xds_server.protocol._references import endpoints_of
from xds_server.protocol._request_parsing import parse_delta
from xds_server.protocol._response_encoding import delta_body, delta_tail, sotw_body, sotw_tail
from xds_server.protocol._type_urls import CLUSTER, RESOURCE_WRAPPER

resources = st.builds(
    Resource,
    name=st.text(max_size=200),
    type_url=st.sampled_from([CLUSTER, "type.googleapis.com/a.B"]),
    body=st.binary(max_size=400),
    version=st.text(max_size=20),
    ttl_s=st.none() | st.floats(0, 1e6),
)
texts = st.text(max_size=300)


def check_body(resource: Resource, packed: Any) -> None:
    assert (packed.type_url, packed.value) == (resource.type_url, resource.body)


def check_wrapper(resource: Resource, wrapper: Any) -> None:
    assert (wrapper.name, wrapper.version) == (resource.name, resource.version)
    check_body(resource, wrapper.resource)
    assert wrapper.HasField("ttl") == (resource.ttl_s is not None)
    if resource.ttl_s is not None:
        assert abs(wrapper.ttl.ToTimedelta().total_seconds() - resource.ttl_s) < 1e-3


@given(st.lists(resources, max_size=5), texts, texts, texts)
def test_state_of_the_world(some: list[Resource], version: str, nonce: str, who: str) -> None:
    for _ in range(2):  # the second time from what was kept
        tail = sotw_tail(type_url=CLUSTER, version=version, nonce=nonce, identifier=who)
        response: Any = discovery_pb2.DiscoveryResponse.FromString(sotw_body(some) + tail)
        assert (response.type_url, response.version_info) == (CLUSTER, version)
        assert (response.nonce, response.control_plane.identifier) == (nonce, who)
        assert len(response.resources) == len(some)
        for resource, packed in zip(some, response.resources, strict=True):
            if resource.ttl_s is None:
                check_body(resource, packed)
            else:
                assert packed.type_url == RESOURCE_WRAPPER
                check_wrapper(resource, discovery_pb2.Resource.FromString(packed.value))


@given(st.lists(resources, max_size=5), texts, texts, st.lists(texts, max_size=5))
def test_delta(some: list[Resource], version: str, nonce: str, removed: list[str]) -> None:
    for _ in range(2):
        tail = delta_tail(
            type_url=CLUSTER, version=version, nonce=nonce, identifier="who", removed=removed
        )
        response: Any = discovery_pb2.DeltaDiscoveryResponse.FromString(delta_body(some) + tail)
        assert (response.type_url, response.system_version_info) == (CLUSTER, version)
        assert (response.nonce, response.control_plane.identifier) == (nonce, "who")
        assert list(response.removed_resources) == removed
        for resource, wrapper in zip(some, response.resources, strict=True):
            check_wrapper(resource, wrapper)


@given(texts, texts, st.sampled_from(["ads", "self", "path", None]), st.booleans())
def test_the_endpoints_a_cluster_waits_for(
    name: str,
    service_name: str,
    source: str | None,
    eds: bool,  # noqa: FBT001  drawn
) -> None:
    cluster: Any = cluster_pb2.Cluster(name=name)
    cluster.connect_timeout.seconds = 3
    cluster.eds_cluster_config.service_name = service_name
    if eds:
        cluster.type = cluster_pb2.Cluster.EDS
    if source == "path":
        cluster.eds_cluster_config.eds_config.path = "/some/file"
    elif source is not None:
        getattr(cluster.eds_cluster_config.eds_config, source).SetInParent()
    expected = (service_name or name) if eds and source in {"ads", "self"} else ""
    assert endpoints_of(Resource.pack(cluster, name=name)) == (expected or None)


def test_a_cluster_that_is_cut_short_waits_for_no_endpoints() -> None:
    cluster: Any = cluster_pb2.Cluster(name="a", type=cluster_pb2.Cluster.EDS)
    cluster.eds_cluster_config.eds_config.ads.SetInParent()
    cluster.eds_cluster_config.service_name = "endpoints"
    body = cluster.SerializeToString()
    assert endpoints_of(Resource(name="a", type_url=CLUSTER, version="1", body=body)) == "endpoints"
    assert endpoints_of(Resource(name="a", type_url=CLUSTER, version="1", body=body[:-2])) is None


@given(st.binary(max_size=200))
def test_bytes_that_are_no_cluster_wait_for_nothing_that_breaks(body: bytes) -> None:
    resource = Resource(name="x", type_url=CLUSTER, body=body, version="1")
    found = endpoints_of(resource)
    assert found is None or isinstance(found, str)


@given(
    type_url=st.text(max_size=150),
    nonce=st.text(max_size=150),
    subscribe=st.lists(st.text(max_size=5), max_size=2),
    refused=st.booleans(),
)
def test_a_delta_request_is_read_the_same_whether_it_is_only_an_acknowledgement_or_more(
    type_url: str, nonce: str, subscribe: list[str], *, refused: bool
) -> None:
    message: Any = discovery_pb2.DeltaDiscoveryRequest(type_url=type_url, response_nonce=nonce)
    message.resource_names_subscribe.extend(subscribe)
    if refused:
        message.error_detail.message = "no"
    data = message.SerializeToString()
    assert parse_delta(data, with_node=False).request == parse_delta(data).request


@given(data=st.binary(max_size=40).map(lambda rest: b"\x12" + rest))
def test_bytes_that_look_like_an_acknowledgement_are_read_as_protobuf_would(data: bytes) -> None:
    def read(*, with_node: bool) -> object:
        try:
            return parse_delta(data, with_node=with_node).request
        except StreamRefused as refused:
            return refused.code

    assert read(with_node=False) == read(with_node=True)
