"""The relay between a real gRPC control plane and a real gRPC client on its socket."""

from __future__ import annotations

import logging

import grpc
import pytest
from envoy.service.discovery.v3 import discovery_pb2

from relays import Messages, RecordingInterceptor, RelayStarter, relays_errors
from xds_proxy import InterceptorRefused
from xds_proxy.testing import control_plane, envoy_stream


async def test_messages_pass_verbatim_both_ways(start_relay: RelayStarter) -> None:
    async with control_plane() as plane, start_relay(plane.address) as running:
        async with envoy_stream(running.socket_path) as envoy:
            request = Messages.request(Messages.cluster)
            await envoy.send(request)
            upstream = await plane.accept()
            assert await upstream.receive() == request

            response = Messages.response(
                Messages.cluster, version="v1", nonce="n1", bodies=(b"one", b"two")
            )
            await upstream.send(response)
            assert await envoy.receive() == response

            ack = Messages.request(Messages.cluster, version="v1", nonce="n1")
            await envoy.send(ack)
            assert await upstream.receive() == ack


async def test_delta_messages_pass_verbatim_both_ways(start_relay: RelayStarter) -> None:
    async with control_plane() as plane, start_relay(plane.address) as running:
        async with envoy_stream(running.socket_path, method="DeltaAggregatedResources") as envoy:
            request = Messages.delta_request(Messages.cluster)
            await envoy.send(request)
            upstream = await plane.accept()
            assert upstream.method == "DeltaAggregatedResources"
            assert await upstream.receive() == request

            response = Messages.delta_response(
                Messages.cluster, version="v1", nonce="n1", bodies=(b"one",)
            )
            await upstream.send(response)
            assert await envoy.receive() == response
            await envoy.send(Messages.delta_request(Messages.cluster, nonce="n1"))
            await upstream.receive()
            status = running.relay.status.types[Messages.cluster]
            assert (status.version, status.acked, status.in_use) == ("v1", True, "v1")
            assert status.control_plane == Messages.identifier


async def test_several_pushes_before_any_ack_do_not_block(start_relay: RelayStarter) -> None:
    async with control_plane() as plane, start_relay(plane.address) as running:
        async with envoy_stream(running.socket_path) as envoy:
            await envoy.send(Messages.request(Messages.cluster))
            upstream = await plane.accept()
            pushes = [
                Messages.response(Messages.cluster, version=f"v{n}", nonce=f"n{n}", bodies=(b"x",))
                for n in range(5)
            ]
            for push in pushes:
                await upstream.send(push)
            assert [await envoy.receive() for _ in pushes] == pushes


async def test_requests_are_taken_while_the_control_plane_reads_none(
    start_relay: RelayStarter,
) -> None:
    """More requests than any flow-control window holds; then they all arrive, in order."""
    async with control_plane() as plane, start_relay(plane.address) as running:
        async with envoy_stream(running.socket_path) as envoy:
            padding = "x" * 100_000
            requests = [Messages.request(f"{n}/{padding}") for n in range(300)]
            for request in requests:
                await envoy.send(request)
            upstream = await plane.accept()
            assert [await upstream.receive() for _ in requests] == requests


async def test_messages_over_4_mib_pass_both_ways(start_relay: RelayStarter) -> None:
    async with control_plane() as plane, start_relay(plane.address) as running:
        async with envoy_stream(running.socket_path) as envoy:
            request = Messages.request(Messages.cluster, version="v" * 5_000_000)
            await envoy.send(request)
            upstream = await plane.accept()
            assert await upstream.receive() == request
            response = Messages.response(
                Messages.cluster, version="v1", nonce="n1", bodies=(b"x" * 20_000_000,)
            )
            await upstream.send(response)
            assert await envoy.receive() == response


async def test_unknown_types_are_dropped_and_said_once(
    start_relay: RelayStarter, caplog: pytest.LogCaptureFixture
) -> None:
    strange = "type.googleapis.com/example.Strange"
    async with control_plane() as plane, start_relay(plane.address) as running:
        async with envoy_stream(running.socket_path) as envoy:
            await envoy.send(Messages.request(Messages.cluster))
            upstream = await plane.accept()
            for nonce in ("s1", "s2"):
                await upstream.send(
                    Messages.response(strange, version="v1", nonce=nonce, bodies=(b"x",))
                )
            known = Messages.response(Messages.cluster, version="v1", nonce="n1", bodies=(b"x",))
            await upstream.send(known)
            assert await envoy.receive() == known
            assert running.relay.counters.dropped == 2
    (error,) = relays_errors(caplog)
    assert (error.levelno, vars(error)["type_url"]) == (logging.ERROR, strange)


async def test_ambient_workloads_pass(start_relay: RelayStarter) -> None:
    workload = "type.googleapis.com/istio.workload.Workload"
    async with control_plane() as plane, start_relay(plane.address) as running:
        async with envoy_stream(running.socket_path) as envoy:
            await envoy.send(Messages.request(workload))
            upstream = await plane.accept()
            response = Messages.response(workload, version="v1", nonce="n1", bodies=(b"x",))
            await upstream.send(response)
            assert await envoy.receive() == response


async def test_a_nack_passes_and_is_shown(start_relay: RelayStarter) -> None:
    async with control_plane() as plane, start_relay(plane.address) as running:
        async with envoy_stream(running.socket_path) as envoy:
            await envoy.send(Messages.request(Messages.cluster))
            upstream = await plane.accept()
            await upstream.receive()
            for version in ("v1", "v2"):
                await upstream.send(
                    Messages.response(
                        Messages.cluster, version=version, nonce=f"nonce-{version}", bodies=(b"x",)
                    )
                )
                await envoy.receive()
                error = "bad cluster" if version == "v2" else None
                await envoy.send(
                    Messages.request(
                        Messages.cluster, version="v1", nonce=f"nonce-{version}", error=error
                    )
                )
                await upstream.receive()
            status = running.relay.status.types[Messages.cluster]
            assert status.version == "v2"
            assert not status.acked
            assert status.nack == "bad cluster"
            assert status.in_use == "v1"


async def test_a_refusal_that_comes_again_and_again_is_one_warning(
    start_relay: RelayStarter, caplog: pytest.LogCaptureFixture
) -> None:
    """Some control planes answer a refusal with the same once more."""
    async with control_plane() as plane, start_relay(plane.address) as running:
        async with envoy_stream(running.socket_path) as envoy:
            await envoy.send(Messages.request(Messages.cluster))
            upstream = await plane.accept()
            assert await upstream.receive() is not None
            for number, error in enumerate(("bad", "bad", "bad", None, "bad", "worse")):
                nonce = str(number)
                await upstream.send(
                    Messages.response(Messages.cluster, version=nonce, nonce=nonce, bodies=(b"x",))
                )
                assert await envoy.receive() is not None
                await envoy.send(Messages.request(Messages.cluster, nonce=nonce, error=error))
                assert await upstream.receive() is not None
            assert running.relay.counters.refused == 5
    said = "Envoy refused a configuration and keeps the last good one"
    reasons = [r.__dict__["reason"] for r in caplog.records if r.message == said]
    assert reasons == ["bad", "bad", "worse"]


async def test_the_agents_types_are_subscribed_to_after_envoys_first_request_and_once(
    start_relay: RelayStarter,
) -> None:
    recorder = RecordingInterceptor()
    async with control_plane() as plane:
        async with start_relay(plane.address, interceptors=(recorder,)) as running:
            async with envoy_stream(running.socket_path) as envoy:
                await envoy.send(Messages.request(Messages.cluster))
                upstream = await plane.accept()
                seen = [Messages.read_request(await upstream.receive()).type_url for _ in range(2)]
                for _ in range(2):
                    await envoy.send(Messages.request(Messages.listener))
                seen += [Messages.read_request(await upstream.receive()).type_url for _ in range(2)]
                assert seen == [
                    Messages.cluster,
                    Messages.name_table,
                    Messages.listener,
                    Messages.listener,
                ]


async def test_an_intercepted_response_is_acked_and_not_forwarded(
    start_relay: RelayStarter,
) -> None:
    recorder = RecordingInterceptor()
    async with control_plane() as plane:
        async with start_relay(plane.address, interceptors=(recorder,)) as running:
            async with envoy_stream(running.socket_path) as envoy:
                await envoy.send(Messages.request(Messages.listener))
                upstream = await plane.accept()
                await upstream.receive()
                await upstream.receive()
                await upstream.send(
                    Messages.response(
                        Messages.name_table, version="v7", nonce="n7", bodies=(b"table",)
                    )
                )
                ack = Messages.read_request(await upstream.receive())
                assert (ack.type_url, ack.version_info, ack.response_nonce) == (
                    Messages.name_table,
                    "v7",
                    "n7",
                )
                assert not ack.HasField("error_detail")
                assert recorder.taken == [b"table"]

                listeners = Messages.response(
                    Messages.listener, version="v1", nonce="n1", bodies=(b"x",)
                )
                await upstream.send(listeners)
                assert await envoy.receive() == listeners
                for type_url in (Messages.name_table, Messages.listener):
                    status = running.relay.status.types[type_url]
                    assert status.control_plane == Messages.identifier
                assert running.relay.status.types[Messages.name_table].acked


async def test_a_refused_response_is_nacked_with_the_last_accepted_version(
    start_relay: RelayStarter, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = RecordingInterceptor()
    async with control_plane() as plane:
        async with start_relay(plane.address, interceptors=(recorder,)) as running:
            async with envoy_stream(running.socket_path) as envoy:
                await envoy.send(Messages.request(Messages.listener))
                upstream = await plane.accept()
                await upstream.receive()
                await upstream.receive()

                async def push(number: int, *bodies: bytes) -> discovery_pb2.DiscoveryRequest:
                    await upstream.send(
                        Messages.response(
                            Messages.name_table,
                            version=f"v{number}",
                            nonce=f"n{number}",
                            bodies=bodies,
                        )
                    )
                    return Messages.read_request(await upstream.receive())

                await push(1, b"good")
                recorder.error = InterceptorRefused("not a table")
                nack = await push(2, b"bad")
                assert nack.version_info == "v1"
                assert nack.response_nonce == "n2"
                assert nack.error_detail.message == "not a table"
                assert nack.error_detail.code == grpc.StatusCode.INTERNAL.value[0]
                recorder.error = RuntimeError("a fault")
                assert "RuntimeError" in (await push(3, b"bad")).error_detail.message
                caplog.clear()  # the logged traceback holds on to this test's event loop
                recorder.error = None
                assert (await push(4)).version_info == "v4"  # nothing in it: ACKed, not taken
                await push(5, b"better")
                assert recorder.taken == [b"good", b"better"]


async def test_an_empty_response_is_acked_and_the_next_one_is_taken(
    start_relay: RelayStarter,
) -> None:
    recorder = RecordingInterceptor()
    async with (
        control_plane() as plane,
        start_relay(plane.address, interceptors=(recorder,)) as running,
        envoy_stream(running.socket_path) as envoy,
    ):
        await envoy.send(Messages.request(Messages.listener))
        upstream = await plane.accept()
        for _ in range(2):
            await upstream.receive()
        each: tuple[tuple[bytes, ...], ...] = ((), (b"one",), (), (b"two",))
        for number, bodies in enumerate(each):
            version = f"v{number}"
            await upstream.send(
                Messages.response(
                    Messages.name_table, version=version, nonce=version, bodies=bodies
                )
            )
            ack = Messages.read_request(await upstream.receive())
            assert (ack.version_info, ack.response_nonce) == (version, version)
            assert not ack.HasField("error_detail")
        assert recorder.taken == [b"one", b"two"]


async def test_interceptors_read_delta_responses_in_the_one_shape(
    start_relay: RelayStarter,
) -> None:
    recorder = RecordingInterceptor()
    async with control_plane() as plane:
        async with start_relay(plane.address, interceptors=(recorder,)) as running:
            method = "DeltaAggregatedResources"
            async with envoy_stream(running.socket_path, method=method) as envoy:
                await envoy.send(Messages.delta_request(Messages.listener))
                upstream = await plane.accept()
                await upstream.receive()
                subscription = Messages.read_delta_request(await upstream.receive())
                assert subscription.type_url == Messages.name_table
                await upstream.send(
                    Messages.delta_response(
                        Messages.name_table, version="v1", nonce="n1", bodies=(b"a", b"b")
                    )
                )
                ack = Messages.read_delta_request(await upstream.receive())
                assert (ack.type_url, ack.response_nonce) == (Messages.name_table, "n1")
                assert recorder.taken == [b"a", b"b"]


async def test_a_malformed_response_ends_the_upstream_stream_and_not_envoys(
    start_relay: RelayStarter, caplog: pytest.LogCaptureFixture
) -> None:
    async with control_plane() as plane, start_relay(plane.address) as running:
        async with envoy_stream(running.socket_path) as envoy:
            request = Messages.request(Messages.cluster)
            await envoy.send(request)
            upstream = await plane.accept()
            await upstream.send(b"\xff\xff\xff")
            await upstream.closed.wait()
            again = await plane.accept()
            assert await again.receive() == request
            good = Messages.response(Messages.cluster, version="v1", nonce="1", bodies=(b"x",))
            await again.send(good)
            assert await envoy.receive() == good
            assert running.relay.status.connected
    (error,) = relays_errors(caplog)
    assert "malformed" in vars(error)["reason"]
