"""Names of a MiB, 100 000 names, and a refusal of 5 MB: shown cut, said so, and nothing waits."""

from __future__ import annotations

import json
import logging

import pytest
from envoy.config.cluster.v3 import cluster_pb2
from envoy.service.discovery.v3 import discovery_pb2
from envoy.service.status.v3 import csds_pb2

from relays import Messages, RelayStarter
from xds_proxy import Relay
from xds_proxy.protocol._shown import shorten
from xds_proxy.services._status_messages import write_response
from xds_proxy.session._refused_resources import refused_resources
from xds_proxy.testing import control_plane, envoy_stream

CLUSTER = Messages.cluster
ENDPOINT = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
MOST_SHOWN = 100_000
"""Bytes of all that is shown of one refused type."""


def all_shown(relay: Relay) -> list[bytes]:
    """Return status and CSDS; each is valid UTF-8 or can't be serialised."""
    csds = write_response(relay.held)
    csds_pb2.ClientStatusResponse.FromString(csds)
    return [str(relay.status.types).encode(), csds]


def everything_logged(records: list[logging.LogRecord]) -> str:
    return json.dumps([each.__dict__ for each in records if each.name == "xds_proxy"], default=str)


async def test_a_refusal_of_5_mb_is_shown_cut_and_passed_on_whole(
    start_relay: RelayStarter, caplog: pytest.LogCaptureFixture
) -> None:
    error = "cluster a: \N{GREEK SMALL LETTER PI}" + "\N{SNOWMAN}" * 1_700_000
    async with (
        control_plane() as plane,
        start_relay(plane.address, quarantine=True) as running,
        envoy_stream(running.socket_path) as envoy,
    ):
        await envoy.send(Messages.request(CLUSTER))
        upstream = await plane.accept()
        await upstream.receive()
        bodies = tuple(cluster_pb2.Cluster(name=name).SerializeToString() for name in "abc")
        await upstream.send(Messages.response(CLUSTER, version="1", nonce="n", bodies=bodies))
        await envoy.receive()
        await envoy.send(Messages.request(CLUSTER, nonce="n", error=error))
        nack = Messages.read_request(await upstream.receive())
        assert nack.error_detail.message == error
        await running.until(lambda relay: relay.status.types[CLUSTER].nack is not None, what="NACK")
        said = running.relay.status.types[CLUSTER].nack
        assert said is not None
        assert said.startswith("cluster a: π☃")
        assert said.endswith(f"... ({len(error)} characters)")
        for shown in all_shown(running.relay):
            assert len(shown) < MOST_SHOWN
            assert b"characters)" in shown
    logged = everything_logged(caplog.records)
    assert "characters)" in logged
    assert len(logged) < MOST_SHOWN


async def test_a_name_of_a_mib_passes_whole_and_is_shown_cut(
    start_relay: RelayStarter, caplog: pytest.LogCaptureFixture
) -> None:
    name = "n" * (1 << 20)
    async with (
        control_plane() as plane,
        start_relay(plane.address, quarantine=True) as running,
        envoy_stream(running.socket_path) as envoy,
    ):
        await envoy.send(Messages.request(CLUSTER))
        upstream = await plane.accept()
        await upstream.receive()
        body = cluster_pb2.Cluster(name=name).SerializeToString()
        for version, error in (("1", None), ("2", f"cluster {name}: no")):
            response = Messages.response(CLUSTER, version=version, nonce=version, bodies=(body,))
            await upstream.send(response)
            assert await envoy.receive() == response
            await envoy.send(Messages.request(CLUSTER, version="1", nonce=version, error=error))
            await upstream.receive()
        await running.until(
            lambda relay: any(each.name for each in relay.status.types[CLUSTER].refused),
            what="the refused cluster",
        )
        (refused,) = running.relay.status.types[CLUSTER].refused
        assert refused.name.endswith(f"n... ({len(name)} characters)")
        client_status = csds_pb2.ClientStatusResponse.FromString(write_response(running.relay.held))
        (shown,) = client_status.config[0].generic_xds_configs
        assert shown.name == refused.name
        assert (shown.version_info, shown.error_state.version_info) == ("1", "2")
        for each in all_shown(running.relay):
            assert len(each) < MOST_SHOWN
    assert len(everything_logged(caplog.records)) < MOST_SHOWN


@pytest.mark.slow
async def test_100_000_names_are_asked_for_and_replayed(start_relay: RelayStarter) -> None:
    names = [f"outbound|{number}||service-{number}.shop" for number in range(100_000)]
    request = discovery_pb2.DiscoveryRequest(type_url=ENDPOINT, resource_names=names)
    request.node.id = "node"
    async with (
        control_plane() as plane,
        start_relay(plane.address) as running,
        envoy_stream(running.socket_path) as envoy,
    ):
        await envoy.send(request.SerializeToString())
        for _ in range(2):
            upstream = await plane.accept()
            received = Messages.read_request(await upstream.receive())
            assert list(received.resource_names) == names
            assert running.relay.status.streams == 1
            upstream.end()


@pytest.mark.slow
async def test_a_resource_of_20_mb_passes_and_is_accepted(start_relay: RelayStarter) -> None:
    body = cluster_pb2.Cluster(name="large", alt_stat_name="x" * 20_000_000).SerializeToString()
    response = Messages.response(CLUSTER, version="1", nonce="n", bodies=(body,))
    async with (
        control_plane() as plane,
        start_relay(plane.address) as running,
        envoy_stream(running.socket_path) as envoy,
    ):
        await envoy.send(Messages.request(CLUSTER))
        upstream = await plane.accept()
        await upstream.receive()
        await upstream.send(response)
        assert await envoy.receive() == response
        await envoy.send(Messages.request(CLUSTER, version="1", nonce="n"))
        await running.until(
            lambda relay: "large" in relay.held[0].resources[CLUSTER], what="the large cluster"
        )


def test_a_long_refusal_of_many_resources_is_not_searched() -> None:
    """Each of 100 000 names would be looked for in 5 MB."""
    names = [f"route-{number}" for number in range(100_000)]
    assert refused_resources(names, "x," * 2_500_000 + " route-7") == {}
    only = refused_resources(["route-7"], "x" * 5_000_000)
    assert len(only["route-7"]) < 5_000


@pytest.mark.parametrize("end", ["", ":", "."])
def test_a_refusal_of_many_resources_is_searched_by_words(end: str) -> None:
    names = [f"route-{number}" for number in range(100_000)]
    error = f"{'x,' * 100_000} in 'route-70'{end} and route-71{end} it says"
    assert refused_resources(names, error).keys() == {"route-70", "route-71"}


def test_every_cluster_of_a_long_list_of_failures_is_found() -> None:
    """What is not found counts as accepted."""
    names = [f"cluster-{number}" for number in range(2_000)]
    listed = ", ".join(f"{name}: malformed" for name in names)
    assert refused_resources(names, f"Error adding/updating cluster(s) {listed}").keys() == set(
        names
    )


def test_what_is_cut_says_so() -> None:
    assert shorten("abc", 3) == "abc"
    assert shorten("äöü!", 3) == "äöü... (4 characters)"
