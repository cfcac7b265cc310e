"""An Envoy that asks for changes only, under a control plane that speaks state of the world."""

from __future__ import annotations

import pytest
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf.message import Message

from mesh_protowire import WireError
from xds_proxy.translation._delta_over_sotw import DeltaOverSotw

CLUSTER = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
ENDPOINT = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
LISTENER = "type.googleapis.com/envoy.config.listener.v3.Listener"
SECRET = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
HEALTH = "type.googleapis.com/istio.v1.HealthInformation"
NAME_TABLE = "type.googleapis.com/istio.networking.nds.v1.NameTable"


def cluster(name: str, *, stat: str = "") -> Message:
    return cluster_pb2.Cluster(name=name, alt_stat_name=stat)


class Stream:
    """A translator between the messages that a test writes and reads."""

    def __init__(self) -> None:
        self.translator = DeltaOverSotw()

    def ask(
        self,
        type_url: str,
        *subscribe: str,
        unsubscribe: tuple[str, ...] = (),
        nonce: str = "",
        versions: dict[str, str] | None = None,
        error: str | None = None,
        node: str = "",
    ) -> list[discovery_pb2.DiscoveryRequest]:
        request = discovery_pb2.DeltaDiscoveryRequest(
            type_url=type_url,
            resource_names_subscribe=subscribe,
            resource_names_unsubscribe=unsubscribe,
            response_nonce=nonce,
            initial_resource_versions=versions or {},
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
        version: str = "1",
        identifier: str = "",
    ) -> discovery_pb2.DeltaDiscoveryResponse | None:
        response = discovery_pb2.DiscoveryResponse(
            type_url=type_url, nonce=nonce, version_info=version
        )
        if identifier:
            response.control_plane.identifier = identifier
        for resource in resources:
            response.resources.add().Pack(resource, "type.googleapis.com/")
        answer = self.translator.response(response.SerializeToString())
        return None if answer is None else discovery_pb2.DeltaDiscoveryResponse.FromString(answer)

    def owed(self) -> list[discovery_pb2.DiscoveryRequest]:
        return self._read(self.translator.take_owed())

    @staticmethod
    def _read(requests: object) -> list[discovery_pb2.DiscoveryRequest]:
        assert isinstance(requests, tuple)
        return [discovery_pb2.DiscoveryRequest.FromString(each) for each in requests]


def names_in(
    response: discovery_pb2.DeltaDiscoveryResponse | None,
) -> tuple[list[str], list[str]]:
    """Return the names of the resources that a response brings, and of those it removes."""
    assert response is not None
    return [each.name for each in response.resources], list(response.removed_resources)


def request(type_url: str, **fields: object) -> discovery_pb2.DiscoveryRequest:
    return discovery_pb2.DiscoveryRequest(type_url=type_url, **fields)  # type: ignore[arg-type]


def test_each_request_names_all_that_envoy_wants() -> None:
    stream = Stream()
    assert stream.ask(ENDPOINT, "a", "b") == [request(ENDPOINT, resource_names=["a", "b"])]
    assert stream.ask(ENDPOINT, "c", unsubscribe=("a",)) == [
        request(ENDPOINT, resource_names=["b", "c"])
    ]
    assert stream.ask(ENDPOINT, unsubscribe=("b", "c")) == [request(ENDPOINT)]


def test_all_is_an_empty_list_until_names_are_given() -> None:
    for wildcard in ((), ("*",)):
        stream = Stream()
        assert stream.ask(CLUSTER, *wildcard) == [request(CLUSTER)]
        assert stream.ask(CLUSTER, "a") == [request(CLUSTER, resource_names=["*", "a"])]
        assert stream.ask(CLUSTER, unsubscribe=("*",)) == [request(CLUSTER, resource_names=["a"])]


def test_no_names_of_a_type_that_is_asked_for_by_name_ask_for_nothing() -> None:
    stream = Stream()
    assert stream.ask(ENDPOINT, node="envoy") == []
    assert [each.node.id for each in stream.ask(ENDPOINT, "a")] == ["envoy"]
    assert [each.HasField("node") for each in stream.ask(SECRET, "a")] == [False]


def test_a_response_brings_what_is_new_and_removes_what_is_gone() -> None:
    stream = Stream()
    stream.ask(CLUSTER)
    first = stream.send(CLUSTER, "n1", cluster("a"), cluster("b"), version="7", identifier="istiod")
    assert names_in(first) == (["a", "b"], [])
    assert first is not None
    assert (first.nonce, first.system_version_info, first.control_plane.identifier) == (
        "n1",
        "7",
        "istiod",
    )
    assert all(each.version for each in first.resources)
    assert stream.ask(CLUSTER, nonce="n1") == [
        request(CLUSTER, version_info="7", response_nonce="n1")
    ]
    second = stream.send(CLUSTER, "n2", cluster("b"), cluster("c"), version="8")
    assert names_in(second) == (["c"], ["a"])


def test_equal_versions_mean_equal_resources() -> None:
    stream, other = Stream(), Stream()
    stream.ask(CLUSTER)
    other.ask(CLUSTER)
    first = stream.send(CLUSTER, "n1", cluster("a"))
    second = other.send(CLUSTER, "n7", cluster("a"), version="9")
    third = other.send(CLUSTER, "n8", cluster("a", stat="new"))
    assert first is not None
    assert second is not None
    assert third is not None
    assert first.resources[0].version == second.resources[0].version
    assert third.resources[0].version != second.resources[0].version


def test_an_envoy_that_reconnects_gets_what_it_lacks() -> None:
    first, second = Stream(), Stream()
    first.ask(CLUSTER)
    sent = first.send(CLUSTER, "n1", cluster("a"), cluster("b"))
    assert sent is not None
    has = {each.name: each.version for each in sent.resources}
    assert second.ask(CLUSTER, "*", versions=has) == [request(CLUSTER)]
    assert names_in(second.send(CLUSTER, "n1", cluster("a"), cluster("c"))) == (["c"], ["b"])


def test_a_first_response_reaches_envoy_even_if_it_has_nothing_new() -> None:
    stream = Stream()
    stream.ask(LISTENER)
    assert names_in(stream.send(LISTENER, "n1")) == ([], [])


def test_an_unchanged_response_is_accepted_by_the_translator() -> None:
    stream = Stream()
    stream.ask(CLUSTER)
    stream.send(CLUSTER, "n1", cluster("a"))
    stream.ask(CLUSTER, nonce="n1")
    assert stream.send(CLUSTER, "n2", cluster("a"), version="2") is None
    assert stream.owed() == [request(CLUSTER, version_info="2", response_nonce="n2")]
    assert stream.owed() == []


def test_nothing_is_accepted_while_envoy_has_a_response_to_judge() -> None:
    stream = Stream()
    stream.ask(CLUSTER)
    stream.send(CLUSTER, "n1", cluster("a"))
    assert names_in(stream.send(CLUSTER, "n2", cluster("a"), version="2")) == (["a"], [])
    assert stream.owed() == []


def test_what_envoy_refused_comes_again_until_it_accepts_it() -> None:
    stream = Stream()
    stream.ask(CLUSTER)
    stream.send(CLUSTER, "n1", cluster("a"), version="1")
    stream.ask(CLUSTER, nonce="n1")
    stream.send(CLUSTER, "n2", cluster("a"), cluster("bad"), version="2")
    (nack,) = stream.ask(CLUSTER, nonce="n2", error="no")
    assert (nack.version_info, nack.response_nonce) == ("1", "n2")
    assert (nack.error_detail.message, nack.error_detail.code) == ("no", 3)
    third = stream.send(CLUSTER, "n3", cluster("a"), cluster("bad"), cluster("c"), version="3")
    assert names_in(third) == (["bad", "c"], [])
    stream.ask(CLUSTER, nonce="n3", error="no")
    # It may have the cluster all the same, as one of several things that it refused.
    fourth = stream.send(CLUSTER, "n4", cluster("a"), cluster("c"), version="4")
    assert names_in(fourth) == (["c"], ["bad"])


def test_new_names_wait_for_the_answer_to_a_response() -> None:
    stream = Stream()
    stream.ask(ENDPOINT, "a")
    stream.send(ENDPOINT, "n1", endpoint_pb2.ClusterLoadAssignment(cluster_name="a"))
    assert stream.ask(ENDPOINT, "b") == []
    assert stream.ask(ENDPOINT, nonce="n1") == [
        request(ENDPOINT, resource_names=["a", "b"], version_info="1", response_nonce="n1")
    ]


def test_new_names_go_on_with_the_nonce_of_the_last_answer() -> None:
    stream = Stream()
    stream.ask(ENDPOINT, "a")
    stream.send(ENDPOINT, "n1", endpoint_pb2.ClusterLoadAssignment(cluster_name="a"))
    stream.ask(ENDPOINT, nonce="n1")
    assert stream.ask(ENDPOINT, "b") == [
        request(ENDPOINT, resource_names=["a", "b"], version_info="1", response_nonce="n1")
    ]


def test_a_name_that_is_asked_for_again_is_sent_again() -> None:
    stream = Stream()
    stream.ask(CLUSTER)
    stream.send(CLUSTER, "n1", cluster("a"), cluster("b"))
    stream.ask(CLUSTER, nonce="n1")
    again = stream.ask(CLUSTER, "a")
    assert again[-1] == request(CLUSTER, resource_names=["*", "a"])  # as on a new stream
    assert names_in(stream.send(CLUSTER, "n2", cluster("a"), cluster("b"))) == (["a"], [])


def test_a_name_given_up_under_a_wildcard_is_sent_again() -> None:
    stream = Stream()
    stream.ask(CLUSTER, "*", "a")
    stream.send(CLUSTER, "n1", cluster("a"), cluster("b"))
    stream.ask(CLUSTER, nonce="n1")
    again = stream.ask(CLUSTER, unsubscribe=("a",))
    assert again[-1] == request(CLUSTER, resource_names=["*"])
    assert names_in(stream.send(CLUSTER, "n2", cluster("a"), cluster("b"))) == (["a"], [])


def test_a_named_cluster_that_does_not_exist_is_removed() -> None:
    stream = Stream()
    stream.ask(CLUSTER)
    stream.send(CLUSTER, "n1", cluster("a"))
    stream.ask(CLUSTER, nonce="n1")
    stream.ask(CLUSTER, "missing")
    assert names_in(stream.send(CLUSTER, "n2", cluster("a"))) == ([], ["missing"])


def test_of_named_types_all_that_comes_reaches_envoy_and_nothing_is_gone() -> None:
    stream = Stream()
    stream.ask(ENDPOINT, "a", "b")
    a = endpoint_pb2.ClusterLoadAssignment(cluster_name="a")
    b = endpoint_pb2.ClusterLoadAssignment(cluster_name="b")
    assert names_in(stream.send(ENDPOINT, "n1", a, b)) == (["a", "b"], [])
    stream.ask(ENDPOINT, nonce="n1")
    assert names_in(stream.send(ENDPOINT, "n2", a)) == (["a"], [])


def test_a_changed_cluster_has_its_endpoints_asked_for_again() -> None:
    stream = Stream()
    stream.ask(CLUSTER)
    stream.ask(ENDPOINT, "a")
    stream.send(CLUSTER, "c1", cluster("a"))
    assert len(stream.ask(CLUSTER, nonce="c1")) == 1
    stream.send(ENDPOINT, "e1", endpoint_pb2.ClusterLoadAssignment(cluster_name="a"))
    stream.ask(ENDPOINT, nonce="e1")
    stream.send(CLUSTER, "c2", cluster("a", stat="new"), version="2")
    assert stream.ask(CLUSTER, nonce="c2") == [
        request(CLUSTER, version_info="2", response_nonce="c2"),
        request(ENDPOINT, resource_names=["a"], version_info="1", response_nonce="e1"),
    ]


def test_a_time_to_live_and_its_prolongation_pass() -> None:
    stream = Stream()
    stream.ask(ENDPOINT, "a")
    wrapped = discovery_pb2.Resource(name="a", version="v")
    wrapped.ttl.seconds = 5
    wrapped.resource.Pack(
        endpoint_pb2.ClusterLoadAssignment(cluster_name="a"), "type.googleapis.com/"
    )
    response = stream.send(ENDPOINT, "n1", wrapped)
    assert response is not None
    assert list(response.resources) == [wrapped]
    stream.ask(CLUSTER)
    of_cluster = discovery_pb2.Resource(name="a", version="v")
    of_cluster.ttl.seconds = 5
    of_cluster.resource.Pack(cluster("a"), "type.googleapis.com/")
    stream.send(CLUSTER, "n1", of_cluster)
    stream.ask(CLUSTER, nonce="n1")
    heartbeat = discovery_pb2.Resource(name="a", version="v")
    heartbeat.ttl.seconds = 5
    prolonged = stream.send(CLUSTER, "n2", heartbeat)
    assert prolonged is not None
    assert list(prolonged.resources) == [heartbeat]
    assert not prolonged.removed_resources


def test_types_of_the_agents_own_are_passed_as_they_are() -> None:
    stream = Stream()
    stream.ask(NAME_TABLE)
    response = discovery_pb2.DiscoveryResponse(type_url=NAME_TABLE, nonce="n1", version_info="1")
    response.resources.add(type_url=NAME_TABLE, value=b"\x0a\x02\x0a\x00")
    sent = stream.translator.response(response.SerializeToString())
    assert sent is not None
    table = discovery_pb2.DeltaDiscoveryResponse.FromString(sent)
    assert [each.resource for each in table.resources] == list(response.resources)


def test_reports_pass_each_time() -> None:
    stream = Stream()
    assert stream.ask(HEALTH) == [request(HEALTH)]
    (unhealthy,) = stream.ask(HEALTH, error="down")
    assert unhealthy.error_detail.message == "down"
    assert stream.ask(HEALTH) == [request(HEALTH)]


def test_an_unrequested_response_is_dropped_without_an_answer() -> None:
    stream = Stream()
    stream.ask(CLUSTER)
    assert stream.send(LISTENER, "n1", cluster("a")) is None
    assert stream.owed() == []  # an answer without names would ask for all of them


def test_a_control_plane_without_nonces_is_answered() -> None:
    stream = Stream()
    stream.ask(CLUSTER)
    response = stream.send(CLUSTER, "", cluster("a"))
    assert response is not None
    assert response.nonce
    assert stream.ask(CLUSTER, nonce=response.nonce) == [request(CLUSTER, version_info="1")]


def test_damaged_messages_are_errors() -> None:
    translator = DeltaOverSotw()
    with pytest.raises(WireError):
        translator.request(b"\xff")
    with pytest.raises(WireError):
        translator.response(b"\xff")
