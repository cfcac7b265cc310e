"""An Envoy that starts while no control plane answers gets what was saved, until one answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from envoy.service.discovery.v3 import discovery_pb2

from accepted import (
    CLUSTER,
    ENDPOINT,
    LISTENER,
    ROUTE,
    difference,
    everything,
    resource,
    saved_config,
)
from mesh_testkit import PATIENCE_S, find_free_port, until
from xds_proxy import Interceptor, Relay, RelayConfig, UpstreamConfig, relaying, resource_bodies
from xds_proxy.testing import (
    ControlPlane,
    ControlPlaneStream,
    EnvoyStream,
    control_plane,
    envoy_stream,
)

NAME_TABLE = "type.googleapis.com/istio.networking.nds.v1.NameTable"
SECRET = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
NODE = "sidecar~10.0.0.1~web.default~default.svc.cluster.local"
DELTA_METHOD = "DeltaAggregatedResources"


class Setup:
    """A control plane's address and a directory, over several relays."""

    def __init__(self, directory: Path, sockets: Path) -> None:
        self.address = f"127.0.0.1:{find_free_port()}"
        self.saved = saved_config(directory / "saved")
        self.socket = sockets / "XDS"

    @asynccontextmanager
    async def relay(self, *interceptors: Interceptor, after_s: float = 0.0) -> AsyncIterator[Relay]:
        config = RelayConfig(
            socket_path=self.socket,
            upstream=UpstreamConfig(address=self.address, root_certificate=None),
            saved=replace(self.saved, start_after_s=after_s),
        )
        async with asyncio.timeout(PATIENCE_S * 2), relaying(config, interceptors) as relay:
            yield relay

    @asynccontextmanager
    async def plane(self) -> AsyncIterator[ControlPlane]:
        async with control_plane(address=self.address) as plane:
            yield plane

    async def save(self, *interceptors: Interceptor) -> None:
        """Let an Envoy accept a whole configuration, which is saved."""
        async with (
            self.plane() as plane,
            self.relay(*interceptors) as relay,
            envoy_stream(self.socket) as envoy,
        ):
            await envoy.send(wants(CLUSTER))
            stream = await plane.accept()
            for type_url, names in (
                (CLUSTER, ("a", "b")),
                (ENDPOINT, ("a", "b")),
                (LISTENER, ("l",)),
                (ROUTE, ("r",)),
            ):
                if type_url != CLUSTER:
                    await envoy.send(wants(type_url, *(names if type_url != LISTENER else ())))
                nonce = f"n-{type_url}"
                await stream.send(everything(type_url, dict.fromkeys(names, ""), nonce=nonce))
                assert await envoy.receive()
                asked = names if type_url in {ENDPOINT, ROUTE} else ()
                await envoy.send(wants(type_url, *asked, version="1", nonce=nonce))
            if interceptors:
                await stream.send(name_table("host.mesh"))
            await until(
                lambda: relay.status.saved and len(relay.status.saved.types) >= 4,
                what="four saved types",
                seen=lambda: relay.status.saved,
            )


@pytest.fixture
def setup(tmp_path: Path, socket_dir: Path) -> Setup:
    return Setup(tmp_path, socket_dir)


def wants(
    type_url: str, *names: str, version: str = "", nonce: str = "", error: str | None = None
) -> bytes:
    message = discovery_pb2.DiscoveryRequest(
        type_url=type_url, resource_names=names, version_info=version, response_nonce=nonce
    )
    message.node.id = NODE
    if error is not None:
        message.error_detail.message = error
    return bytes(message.SerializeToString())


def subscribes(
    type_url: str, *names: str, nonce: str = "", has: dict[str, str] | None = None
) -> bytes:
    message = discovery_pb2.DeltaDiscoveryRequest(
        type_url=type_url,
        resource_names_subscribe=names,
        response_nonce=nonce,
        initial_resource_versions=has or {},
    )
    message.node.id = NODE
    return bytes(message.SerializeToString())


def name_table(host: str) -> bytes:
    message = discovery_pb2.DiscoveryResponse(type_url=NAME_TABLE, version_info="1", nonce="nt")
    added = message.resources.add(type_url=NAME_TABLE)
    added.value = b"\x0a" + bytes([len(host)]) + host.encode()
    return bytes(message.SerializeToString())


class Table:
    """Takes name tables as the agent does."""

    type_url = NAME_TABLE

    def __init__(self) -> None:
        self.applied: list[tuple[bytes, ...]] = []
        self.from_disk: list[tuple[bytes, ...]] = []

    def apply(self, response: bytes) -> None:
        self.applied.append(resource_bodies(response))

    def apply_saved(self, response: bytes) -> None:
        self.from_disk.append(resource_bodies(response))


async def received(envoy: EnvoyStream) -> discovery_pb2.DiscoveryResponse:
    response = await envoy.receive()
    assert response is not None, await envoy.status()
    return discovery_pb2.DiscoveryResponse.FromString(response)


async def received_delta(envoy: EnvoyStream) -> discovery_pb2.DeltaDiscoveryResponse:
    response = await envoy.receive()
    assert response is not None, await envoy.status()
    return discovery_pb2.DeltaDiscoveryResponse.FromString(response)


async def asked(stream: ControlPlaneStream) -> discovery_pb2.DeltaDiscoveryRequest:
    return discovery_pb2.DeltaDiscoveryRequest.FromString(await stream.receive() or b"")


def bodies(response: discovery_pb2.DiscoveryResponse) -> list[bytes]:
    return [bytes(each.value) for each in response.resources]


def saved_as(type_url: str, *names: str) -> list[bytes]:
    return [bytes(resource(type_url, name).SerializeToString()) for name in names]


async def test_a_fresh_envoy_gets_everything_in_its_own_order_and_is_reported_as_stale(
    setup: Setup,
) -> None:
    await setup.save()
    async with setup.relay() as relay, envoy_stream(setup.socket) as envoy:
        for type_url, asked, names in (
            (CLUSTER, (), ("a", "b")),
            (ENDPOINT, ("a", "b"), ("a", "b")),
            (LISTENER, (), ("l",)),
            (ROUTE, ("r",), ("r",)),
        ):
            await envoy.send(wants(type_url, *asked))
            response = await received(envoy)
            assert response.type_url == type_url
            assert response.version_info == "saved-1"
            assert bodies(response) == saved_as(type_url, *names)
            version, nonce = response.version_info, response.nonce
            await envoy.send(wants(type_url, *asked, version=version, nonce=nonce))
        status = relay.status
        assert status.stale_since is not None
        assert status.stale_types == {CLUSTER, ENDPOINT, LISTENER, ROUTE}
        assert not status.connected
        assert relay.counters.stale_starts == 1


async def test_the_control_plane_replaces_it_type_by_type(setup: Setup) -> None:
    await setup.save()
    async with setup.relay() as relay, envoy_stream(setup.socket) as envoy:
        for type_url in (CLUSTER, LISTENER):
            await envoy.send(wants(type_url))
            stale = await received(envoy)
            await envoy.send(wants(type_url, version=stale.version_info, nonce=stale.nonce))
        async with setup.plane() as plane:
            stream = await plane.accept()
            first = discovery_pb2.DiscoveryRequest.FromString(await stream.receive() or b"")
            assert (first.type_url, first.version_info, first.response_nonce) == (
                CLUSTER,
                "saved-1",
                "",
            )
            assert first.node.id == NODE
            await stream.send(everything(CLUSTER, {"c": ""}, nonce="1"))
            truth = await received(envoy)
            assert bodies(truth) == saved_as(CLUSTER, "c")
            assert relay.status.stale_types == {LISTENER}
            await stream.send(everything(LISTENER, {}, nonce="2"))
            assert (await received(envoy)).type_url == LISTENER
            assert relay.status.stale_since is None
            assert relay.status.connected


async def test_in_delta_the_control_plane_is_sent_what_envoy_has(setup: Setup) -> None:
    await setup.save()
    async with (
        setup.relay(),
        envoy_stream(setup.socket, method=DELTA_METHOD) as envoy,
    ):
        await envoy.send(subscribes(CLUSTER))
        stale = await received_delta(envoy)
        assert {each.name: each.version for each in stale.resources} == {
            "a": "saved-",
            "b": "saved-",
        }
        await envoy.send(subscribes(CLUSTER, nonce=stale.nonce))
        await envoy.send(subscribes(ENDPOINT, "a", "unknown"))
        endpoints = await received_delta(envoy)
        assert [each.name for each in endpoints.resources] == ["a", "unknown"]
        await envoy.send(subscribes(ENDPOINT, nonce=endpoints.nonce))
        async with setup.plane() as plane:
            stream = await plane.accept()
            first = discovery_pb2.DeltaDiscoveryRequest.FromString(await stream.receive() or b"")
            assert dict(first.initial_resource_versions) == {"a": "", "b": "saved-"}
            second = discovery_pb2.DeltaDiscoveryRequest.FromString(await stream.receive() or b"")
            assert dict(second.initial_resource_versions) == {
                "a": "saved-",
                "unknown": "saved-nothing",
            }
            await stream.send(difference(CLUSTER, {"a": "9"}, removed=["b"]))
            assert list((await received_delta(envoy)).removed_resources) == ["b"]


async def test_a_control_plane_that_connects_and_is_silent_is_no_answer(setup: Setup) -> None:
    await setup.save()
    async with setup.plane() as plane, setup.relay(), envoy_stream(setup.socket) as envoy:
        await envoy.send(wants(CLUSTER))
        stream = await plane.accept()
        stale = await received(envoy)
        assert stale.version_info == "saved-1"
        await stream.send(everything(CLUSTER, {"c": ""}, nonce="1"))
        assert bodies(await received(envoy)) == saved_as(CLUSTER, "c")


async def test_in_delta_a_silent_control_plane_that_speaks_at_last_begins_anew(
    setup: Setup,
) -> None:
    await setup.save()
    async with (
        setup.plane() as plane,
        setup.relay(),
        envoy_stream(setup.socket, method=DELTA_METHOD) as envoy,
    ):
        # Nothing is saved of secrets: their request opens the stream before anything is fed.
        await envoy.send(subscribes(SECRET, "s"))
        silent = await plane.accept()
        await silent.receive()
        await envoy.send(subscribes(CLUSTER))
        await silent.receive()
        stale = await received_delta(envoy)
        await envoy.send(subscribes(CLUSTER, nonce=stale.nonce))
        # It would not say that `b` is gone, as it does not know that Envoy has it.
        await silent.send(difference(CLUSTER, {"a": "9"}))
        stream = await plane.accept()
        requests = {each.type_url: each for each in [await asked(stream), await asked(stream)]}
        assert set(requests[CLUSTER].initial_resource_versions) == {"a", "b"}
        await stream.send(difference(CLUSTER, {"a": "9"}, removed=["b"]))
        assert list((await received_delta(envoy)).removed_resources) == ["b"]


async def test_an_envoy_that_has_configuration_keeps_it(setup: Setup) -> None:
    await setup.save()
    async with setup.relay() as relay, envoy_stream(setup.socket) as envoy:
        await envoy.send(wants(CLUSTER, version="1"))
        await until(lambda: relay.status.last_error, what="a failed connection")
        async with setup.plane() as plane:
            stream = await plane.accept()
            await stream.send(everything(CLUSTER, {"c": ""}, version="2"))
            assert (await received(envoy)).version_info == "2"
        assert relay.counters.stale_starts == 0


async def test_a_control_plane_that_answers_in_time_is_waited_for(setup: Setup) -> None:
    await setup.save()
    async with setup.relay(after_s=PATIENCE_S) as relay, envoy_stream(setup.socket) as envoy:
        await envoy.send(wants(CLUSTER))
        await until(lambda: relay.status.last_error, what="a failed connection")
        async with setup.plane() as plane:
            stream = await plane.accept()
            await stream.send(everything(CLUSTER, {"c": ""}, version="2"))
            assert (await received(envoy)).version_info == "2"
        assert relay.counters.stale_starts == 0


async def test_nothing_for_routes_and_endpoints_is_an_empty_one(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    await setup.save()
    async with setup.relay(), envoy_stream(setup.socket) as envoy:
        await envoy.send(wants(ROUTE, "r", "unknown"))
        assert bodies(await received(envoy)) == saved_as(ROUTE, "r", "unknown")
    assert "were never saved" in caplog.text


async def test_a_refused_response_is_neither_saved_nor_given(setup: Setup) -> None:
    await setup.save()
    async with (
        setup.plane() as plane,
        setup.relay() as relay,
        envoy_stream(setup.socket) as envoy,
    ):
        await envoy.send(wants(ROUTE, "r", version="1"))
        stream = await plane.accept()
        await stream.send(everything(ROUTE, {"r": "bad"}, version="2", nonce="bad"))
        await received(envoy)
        await envoy.send(wants(ROUTE, "r", version="1", nonce="bad", error="r: no good"))
        await until(lambda: relay.counters.refused, what="a refusal")
    async with setup.relay(), envoy_stream(setup.socket) as envoy:
        await envoy.send(wants(ROUTE, "r"))
        assert bodies(await received(envoy)) == saved_as(ROUTE, "r")


async def test_a_damaged_file_is_refused_and_said(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    await setup.save()
    (file,) = setup.saved.directory.glob("*Cluster-*")
    file.write_bytes(file.read_bytes()[:-1])
    async with setup.relay() as relay, envoy_stream(setup.socket) as envoy:
        await envoy.send(wants(CLUSTER))
        await until(lambda: relay.status.saved and relay.status.saved.problem, what="the reason")
        assert "it is damaged or cut short" in str(relay.status.saved)
        assert relay.status.stale_since is None
        async with setup.plane() as plane:
            stream = await plane.accept()
            await stream.send(everything(CLUSTER, {"c": ""}, version="2"))
            assert (await received(envoy)).version_info == "2"
    assert "saved configuration is not used" in caplog.messages


async def test_the_agents_own_types_begin_with_what_was_saved(setup: Setup) -> None:
    await setup.save(Table())
    table = Table()
    async with setup.relay(table), envoy_stream(setup.socket) as envoy:
        await envoy.send(wants(CLUSTER))
        await received(envoy)
        assert table.from_disk == [(b"\x0a\x09host.mesh",)]
        assert table.applied == []


async def test_a_name_table_that_comes_before_anything_of_envoys_is_saved_too(
    setup: Setup,
) -> None:
    async with (
        setup.plane() as plane,
        setup.relay(Table(), after_s=60.0) as relay,
        envoy_stream(setup.socket) as envoy,
    ):
        await envoy.send(wants(CLUSTER))
        stream = await plane.accept()
        await stream.send(name_table("host.mesh"))
        await until(lambda: NAME_TABLE in relay.status.types, what="the name table")
        await stream.send(everything(CLUSTER, {"a": ""}, nonce="1"))
        await received(envoy)
        await envoy.send(wants(CLUSTER, version="1", nonce="1"))
        await until(
            lambda: relay.status.saved and {CLUSTER, NAME_TABLE} <= set(relay.status.saved.types),
            what="both to be saved",
            seen=lambda: relay.status.saved,
        )
    table = Table()
    async with setup.relay(table), envoy_stream(setup.socket) as envoy:
        await envoy.send(wants(CLUSTER))
        await received(envoy)
        assert table.from_disk == [(b"\x0a\x09host.mesh",)]


async def test_a_response_without_a_name_table_takes_the_saved_one_not_away(
    setup: Setup,
) -> None:
    """In delta, a control plane that has nothing new says so to a stream that comes again."""
    await setup.save(Table())
    nothing_new = discovery_pb2.DiscoveryResponse(
        type_url=NAME_TABLE, version_info="2", nonce="none"
    )
    async with (
        setup.plane() as plane,
        setup.relay(Table(), after_s=60.0) as relay,
        envoy_stream(setup.socket) as envoy,
    ):
        await envoy.send(wants(CLUSTER))
        stream = await plane.accept()
        await stream.send(nothing_new.SerializeToString())
        await until(
            lambda: NAME_TABLE in relay.status.types and relay.status.types[NAME_TABLE].acked,
            what="the empty response to be accepted",
        )
        await stream.send(everything(CLUSTER, {"c": ""}, nonce="1", version="2"))
        await received(envoy)
        await envoy.send(wants(CLUSTER, version="2", nonce="1"))
        await until(
            lambda: relay.status.saved and relay.status.saved.writes,
            what="the clusters to be saved",
            seen=lambda: relay.status.saved,
        )
    table = Table()
    async with setup.relay(table), envoy_stream(setup.socket) as envoy:
        await envoy.send(wants(CLUSTER))
        assert bodies(await received(envoy)) == saved_as(CLUSTER, "c")
        assert table.from_disk == [(b"\x0a\x09host.mesh",)]


async def test_an_envoy_that_comes_during_the_outage_does_not_wait(setup: Setup) -> None:
    await setup.save()
    async with setup.relay(after_s=1.0) as relay:
        for number in range(1, 3):
            async with envoy_stream(setup.socket) as envoy:
                await envoy.send(wants(CLUSTER))
                assert (await received(envoy)).version_info == "saved-1"
            assert relay.counters.stale_starts == number


async def test_both_envoys_of_a_hot_restart_are_fed_and_the_newer_one_counts(
    setup: Setup,
) -> None:
    await setup.save()
    async with (
        setup.relay() as relay,
        envoy_stream(setup.socket) as old,
        envoy_stream(setup.socket) as new,
    ):
        for envoy in (old, new):
            for type_url, names in ((CLUSTER, ("a", "b")), (LISTENER, ("l",))):
                await envoy.send(wants(type_url))
                stale = await received(envoy)
                assert bodies(stale) == saved_as(type_url, *names)
                await envoy.send(wants(type_url, version=stale.version_info, nonce=stale.nonce))
        assert relay.counters.stale_starts == 2
        assert relay.status.stale_types == {CLUSTER, LISTENER}
        async with setup.plane() as plane:
            streams = [await plane.accept(), await plane.accept()]
            for stream in streams:
                await stream.send(everything(CLUSTER, {"c": ""}, nonce="1"))
            for envoy in (old, new):
                truth = await received(envoy)
                assert bodies(truth) == saved_as(CLUSTER, "c")
                await envoy.send(wants(CLUSTER, version=truth.version_info, nonce=truth.nonce))
            assert relay.status.stale_types == {LISTENER}
            for stream in streams:
                await stream.send(everything(LISTENER, {"m": ""}, nonce="2"))
            for envoy in (old, new):
                assert bodies(await received(envoy)) == saved_as(LISTENER, "m")
            assert relay.status.stale_since is None
