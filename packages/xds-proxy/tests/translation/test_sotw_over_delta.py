"""An Envoy that asks for the state of the world, under a control plane that speaks delta."""

from __future__ import annotations

import pytest
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf.message import Message

from mesh_protowire import WireError
from xds_proxy._errors import TranslationError
from xds_proxy.translation._sotw_over_delta import SotwOverDelta

CLUSTER = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
ENDPOINT = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
LISTENER = "type.googleapis.com/envoy.config.listener.v3.Listener"
SECRET = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
HEALTH = "type.googleapis.com/istio.v1.HealthInformation"
NAME_TABLE = "type.googleapis.com/istio.networking.nds.v1.NameTable"
WRAPPER = "type.googleapis.com/envoy.service.discovery.v3.Resource"


def cluster(name: str, *, stat: str = "") -> Message:
    return cluster_pb2.Cluster(name=name, alt_stat_name=stat)


def eds_cluster(name: str, *, stat: str = "", service: str = "") -> Message:
    cluster = cluster_pb2.Cluster(name=name, alt_stat_name=stat, type=cluster_pb2.Cluster.EDS)
    cluster.eds_cluster_config.eds_config.ads.SetInParent()
    cluster.eds_cluster_config.service_name = service
    return cluster


class Stream:
    """A translator between the messages that a test writes and reads."""

    def __init__(self, *, max_bytes: int = 1 << 20) -> None:
        self.translator = SotwOverDelta(max_bytes=max_bytes)

    def ask(
        self,
        type_url: str,
        *names: str,
        nonce: str = "",
        version: str = "",
        error: str | None = None,
        node: str = "",
    ) -> list[discovery_pb2.DeltaDiscoveryRequest]:
        request = discovery_pb2.DiscoveryRequest(
            type_url=type_url, resource_names=names, response_nonce=nonce, version_info=version
        )
        if node:
            request.node.id = node
        if error is not None:
            request.error_detail.code = 3
            request.error_detail.message = error
        return self._read(self.translator.request(request.SerializeToString()))

    def send(
        self,
        type_url: str,
        nonce: str,
        *resources: Message,
        removed: tuple[str, ...] = (),
        version: str = "1",
        **fields: str,
    ) -> discovery_pb2.DiscoveryResponse | None:
        response = discovery_pb2.DeltaDiscoveryResponse(
            type_url=type_url,
            nonce=nonce,
            removed_resources=removed,
            system_version_info=version,
        )
        if "identifier" in fields:
            response.control_plane.identifier = fields["identifier"]
        for resource in resources:
            if isinstance(resource, discovery_pb2.Resource):
                response.resources.append(resource)
            else:
                name = getattr(resource, "name", "") or getattr(resource, "cluster_name", "")
                added = response.resources.add(name=name, version=nonce)
                added.resource.Pack(resource, "type.googleapis.com/")
        answer = self.translator.response(response.SerializeToString())
        return None if answer is None else discovery_pb2.DiscoveryResponse.FromString(answer)

    def owed(self) -> list[discovery_pb2.DeltaDiscoveryRequest]:
        return self._read(self.translator.take_owed())

    @staticmethod
    def _read(requests: object) -> list[discovery_pb2.DeltaDiscoveryRequest]:
        assert isinstance(requests, tuple)
        return [discovery_pb2.DeltaDiscoveryRequest.FromString(each) for each in requests]


def names_in(response: discovery_pb2.DiscoveryResponse | None) -> list[str]:
    assert response is not None
    return [cluster_pb2.Cluster.FromString(each.value).name for each in response.resources]


def request(type_url: str, **fields: object) -> discovery_pb2.DeltaDiscoveryRequest:
    return discovery_pb2.DeltaDiscoveryRequest(type_url=type_url, **fields)  # type: ignore[arg-type]


def test_a_request_tells_what_names_are_new_and_which_are_gone() -> None:
    stream = Stream()
    assert stream.ask(ENDPOINT, "a", "b") == [
        request(ENDPOINT, resource_names_subscribe=["a", "b"])
    ]
    assert stream.ask(ENDPOINT, "b", "c") == [
        request(ENDPOINT, resource_names_subscribe=["c"], resource_names_unsubscribe=["a"])
    ]
    assert stream.ask(ENDPOINT) == [request(ENDPOINT, resource_names_unsubscribe=["b", "c"])]


def test_all_is_asked_for_as_envoy_does_it() -> None:
    implicit, explicit = Stream(), Stream()
    assert implicit.ask(CLUSTER) == [request(CLUSTER)]
    assert explicit.ask(CLUSTER, "*") == [request(CLUSTER, resource_names_subscribe=["*"])]
    assert implicit.ask(CLUSTER, "a") == [
        request(CLUSTER, resource_names_subscribe=["a"], resource_names_unsubscribe=["*"])
    ]
    assert explicit.ask(CLUSTER, "*", "a") == [request(CLUSTER, resource_names_subscribe=["a"])]


def test_no_names_of_a_type_that_is_asked_for_by_name_ask_for_nothing() -> None:
    stream = Stream()
    assert stream.ask(ENDPOINT, node="envoy") == []
    first = stream.ask(ENDPOINT, "a")
    assert [each.node.id for each in first] == ["envoy"]  # which only the first request has


def test_the_node_is_sent_once() -> None:
    stream = Stream()
    assert [each.node.id for each in stream.ask(CLUSTER, node="envoy")] == ["envoy"]
    assert [each.HasField("node") for each in stream.ask(LISTENER)] == [False]


def test_a_response_of_clusters_has_all_of_them() -> None:
    stream = Stream()
    stream.ask(CLUSTER)
    first = stream.send(CLUSTER, "n1", cluster("a"), cluster("b"), identifier="istiod", version="7")
    assert first is not None
    assert names_in(first) == ["a", "b"]
    assert (first.nonce, first.version_info, first.control_plane.identifier) == (
        "n1",
        "7",
        "istiod",
    )
    second = stream.send(CLUSTER, "n2", cluster("c"), cluster("a", stat="new"), removed=("b",))
    assert names_in(second) == ["c", "a"]
    assert names_in(stream.send(CLUSTER, "n3", removed=("a", "c"))) == []


def test_an_empty_first_response_reaches_envoy_and_later_ones_are_answered_for_it() -> None:
    stream = Stream()
    stream.ask(LISTENER)
    assert names_in(stream.send(LISTENER, "n1")) == []
    assert stream.ask(LISTENER, nonce="n1", version="1") == [request(LISTENER, response_nonce="n1")]
    assert stream.send(LISTENER, "n2") is None
    assert stream.owed() == [request(LISTENER, response_nonce="n2")]
    assert stream.owed() == []


def test_that_a_named_listener_does_not_exist_is_a_response_without_it() -> None:
    stream = Stream()
    stream.ask(LISTENER, "missing")
    assert names_in(stream.send(LISTENER, "n1", removed=("missing",))) == []


def test_of_named_types_only_changes_reach_envoy() -> None:
    stream = Stream()
    stream.ask(ENDPOINT, "a", "b")
    a = endpoint_pb2.ClusterLoadAssignment(cluster_name="a")
    b = endpoint_pb2.ClusterLoadAssignment(cluster_name="b")
    assert names_in(stream.send(ENDPOINT, "n1", a, b)) == ["a", "b"]
    assert names_in(stream.send(ENDPOINT, "n2", b)) == ["b"]


def test_what_state_of_the_world_cannot_say_is_accepted_by_the_translator() -> None:
    stream = Stream()
    stream.ask(ENDPOINT, "a")
    assert stream.send(ENDPOINT, "n1", removed=("a",)) is None
    assert stream.owed() == [request(ENDPOINT, response_nonce="n1")]


def test_an_ack_and_a_nack_answer_the_control_planes_response() -> None:
    stream = Stream()
    stream.ask(CLUSTER)
    stream.send(CLUSTER, "n1", cluster("a"))
    assert stream.ask(CLUSTER, nonce="n1", version="1") == [request(CLUSTER, response_nonce="n1")]
    stream.send(CLUSTER, "n2", cluster("b"))
    (nack,) = stream.ask(CLUSTER, nonce="n2", version="1", error="no b")
    assert (nack.response_nonce, nack.error_detail.message, nack.error_detail.code) == (
        "n2",
        "no b",
        3,
    )
    # As a control plane of its own dialect would, until it is sent something else.
    assert names_in(stream.send(CLUSTER, "n3", cluster("c"))) == ["a", "b", "c"]


def test_an_answer_may_change_names_as_well() -> None:
    stream = Stream()
    stream.ask(ENDPOINT, "a")
    stream.send(ENDPOINT, "n1", endpoint_pb2.ClusterLoadAssignment(cluster_name="a"))
    assert stream.ask(ENDPOINT, "b", nonce="n1") == [
        request(
            ENDPOINT,
            resource_names_subscribe=["b"],
            resource_names_unsubscribe=["a"],
            response_nonce="n1",
        )
    ]
    # The nonce has been answered: what follows is no answer.
    assert stream.ask(ENDPOINT, "b", nonce="n1") == []
    assert stream.ask(ENDPOINT, "b", "c", nonce="n1") == [
        request(ENDPOINT, resource_names_subscribe=["c"])
    ]


def test_an_answer_to_the_newest_response_passes_over_earlier_ones() -> None:
    stream = Stream()
    stream.ask(CLUSTER)
    stream.send(CLUSTER, "n1", cluster("a"))
    stream.send(CLUSTER, "n2", cluster("b"))
    assert stream.ask(CLUSTER, nonce="n2") == [request(CLUSTER, response_nonce="n2")]
    assert stream.ask(CLUSTER, nonce="n1") == []


def test_a_request_without_a_nonce_has_everything_sent_again() -> None:
    stream = Stream()
    stream.ask(ENDPOINT, "a", "b")
    stream.send(ENDPOINT, "n1", endpoint_pb2.ClusterLoadAssignment(cluster_name="a"))
    assert stream.ask(ENDPOINT, "a", "b") == [
        request(ENDPOINT, resource_names_subscribe=["a", "b"])
    ]


def test_clusters_that_were_named_are_no_longer_kept_when_they_are_not() -> None:
    stream = Stream()
    stream.ask(CLUSTER, "a", "b")
    assert names_in(stream.send(CLUSTER, "n1", cluster("a"), cluster("b"), cluster("x"))) == [
        "a",
        "b",
    ]
    stream.ask(CLUSTER, "b", nonce="n1")
    assert names_in(stream.send(CLUSTER, "n2", cluster("b", stat="new"))) == ["b"]


def test_an_unrequested_response_is_accepted_and_dropped() -> None:
    stream = Stream()
    stream.ask(CLUSTER)
    assert stream.send(SECRET, "n1", cluster("a")) is None
    assert stream.owed() == [request(SECRET, response_nonce="n1")]


def test_a_resource_with_a_time_to_live_is_wrapped_and_prolonged_with_its_body() -> None:
    stream = Stream()
    stream.ask(ENDPOINT, "a")
    with_ttl = discovery_pb2.Resource(name="a", version="v")
    with_ttl.ttl.seconds = 5
    with_ttl.resource.Pack(
        endpoint_pb2.ClusterLoadAssignment(cluster_name="a"), "type.googleapis.com/"
    )
    heartbeat = discovery_pb2.Resource(name="a", version="v")
    heartbeat.ttl.seconds = 9
    unknown = discovery_pb2.Resource(name="b", version="v")
    for nonce, sent, seconds in (("n1", [with_ttl], 5), ("n2", [heartbeat, unknown], 9)):
        response = stream.send(ENDPOINT, nonce, *sent)
        assert response is not None
        assert [each.type_url for each in response.resources] == [WRAPPER]
        found = discovery_pb2.Resource.FromString(response.resources[0].value)
        assert (found.name, found.ttl.seconds) == ("a", seconds)
        assert found.resource == with_ttl.resource


def test_a_name_that_the_resource_does_not_have_inside_is_sent_around_it() -> None:
    stream = Stream()
    stream.ask(CLUSTER)
    other = discovery_pb2.Resource(name="xdstp://a/envoy.config.cluster.v3.Cluster/b", version="v")
    other.resource.Pack(cluster("b"), "type.googleapis.com/")
    response = stream.send(CLUSTER, "n1", other)
    assert response is not None
    assert [each.type_url for each in response.resources] == [WRAPPER]
    found = discovery_pb2.Resource.FromString(response.resources[0].value)
    assert found.name == other.name


def test_types_of_the_agents_own_are_passed_as_they_are() -> None:
    stream = Stream()
    assert stream.ask(NAME_TABLE) == [request(NAME_TABLE)]
    table = discovery_pb2.Resource(name="")
    table.resource.type_url = NAME_TABLE
    table.resource.value = b"\x0a\x02\x0a\x00"
    response = stream.send(NAME_TABLE, "n1", table)
    assert response is not None
    assert list(response.resources) == [table.resource]


def test_reports_pass_each_time() -> None:
    stream = Stream()
    assert stream.ask(HEALTH) == [request(HEALTH)]
    (unhealthy,) = stream.ask(HEALTH, error="down")
    assert unhealthy.error_detail.message == "down"
    assert stream.ask(HEALTH) == [request(HEALTH)]


def test_endpoints_of_a_changed_cluster_are_asked_for_again() -> None:
    stream = Stream()
    stream.ask(CLUSTER)
    stream.ask(ENDPOINT, "a", "service")
    stream.send(CLUSTER, "n1", eds_cluster("a"), eds_cluster("b", service="service"), cluster("c"))
    assert stream.owed() == []
    changed = eds_cluster("b", stat="new", service="service")
    stream.send(CLUSTER, "n2", eds_cluster("a"), changed, cluster("c", stat="new"))
    assert stream.owed() == [request(ENDPOINT, resource_names_subscribe=["service"])]
    assert stream.owed() == []


def test_a_control_plane_without_nonces_and_versions_is_answered() -> None:
    stream = Stream()
    stream.ask(CLUSTER)
    response = stream.send(CLUSTER, "", cluster("a"), version="")
    assert response is not None
    assert response.nonce
    assert response.version_info
    assert stream.ask(CLUSTER, nonce=response.nonce) == [request(CLUSTER)]


def test_more_than_a_message_may_hold_ends_the_stream_with_the_reason() -> None:
    stream = Stream(max_bytes=1000)
    stream.ask(CLUSTER)
    stream.send(CLUSTER, "n1", cluster("a", stat="x" * 600))
    with pytest.raises(TranslationError, match="more than the 1000 bytes"):
        stream.send(CLUSTER, "n2", cluster("b", stat="x" * 600))


def test_damaged_messages_are_errors() -> None:
    translator = SotwOverDelta(max_bytes=1000)
    with pytest.raises(WireError):
        translator.request(b"\xff")
    with pytest.raises(WireError):
        translator.response(b"\xff")
