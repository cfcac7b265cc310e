"""A real Envoy behind the relay, configured by a control plane over TLS with a token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from envoy.config.cluster.v3 import cluster_pb2
from envoy.service.discovery.v3 import discovery_pb2

from envoys import running_envoy
from mesh_testkit.certificates import Authority
from relays import Messages, RelayStarter, server_credentials
from xds_proxy.testing import ControlPlaneStream, control_plane


async def _until_at_work(admin: Path) -> None:
    """Wait until an Envoy has started its workers: before, it would let no other take over."""
    answer = b""
    async with asyncio.timeout(60):
        while b"workers_started: 1" not in answer:
            reader, writer = await asyncio.open_unix_connection(admin)
            writer.write(b"GET /stats?filter=workers_started HTTP/1.1\r\n")
            writer.write(b"host: a\r\nconnection: close\r\n\r\n")
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()


def _cluster(name: str, *, timeout_s: int) -> bytes:
    cluster = cluster_pb2.Cluster(name=name, type=cluster_pb2.Cluster.STATIC)
    cluster.connect_timeout.seconds = timeout_s
    return bytes(cluster.SerializeToString())


_Request = discovery_pb2.DiscoveryRequest | discovery_pb2.DeltaDiscoveryRequest
_Read = Callable[[bytes | None], _Request]


async def _next_request(upstream: ControlPlaneStream, type_url: str, read: _Read) -> _Request:
    """The next request of this type; Envoy interleaves others."""
    while True:
        request = read(await upstream.receive())
        if request.type_url == type_url:
            return request


@pytest.mark.parametrize("api_type", ["GRPC", "DELTA_GRPC"])
async def test_envoy_takes_good_configuration_and_refuses_bad(
    *,
    start_relay: RelayStarter,
    authority: Authority,
    tmp_path: Path,
    envoy_binary: Path,
    api_type: str,
) -> None:
    delta = api_type == "DELTA_GRPC"
    read: _Read = Messages.read_delta_request if delta else Messages.read_request
    respond = Messages.delta_response if delta else Messages.response
    root, token = tmp_path / "root-cert.pem", tmp_path / "token"
    root.write_bytes(authority.root_pem)
    token.write_text("workload-token")

    async with control_plane(credentials=server_credentials(authority, "127.0.0.1")) as plane:
        async with start_relay(plane.address, root_certificate=root, token_path=token) as running:
            async with running_envoy(envoy_binary, running.socket_path, api_type):
                upstream = await plane.accept()
                assert upstream.metadata["authorization"] == "Bearer workload-token"
                first = read(await upstream.receive())
                assert first.node.id.startswith("sidecar~")

                good = (_cluster("good", timeout_s=1),)
                await upstream.send(
                    respond(Messages.cluster, version="v1", nonce="n1", bodies=good)
                )
                ack = await _next_request(upstream, Messages.cluster, read)
                assert ack.response_nonce == "n1"
                assert not ack.HasField("error_detail")

                bad = (_cluster("bad", timeout_s=-1),)
                await upstream.send(respond(Messages.cluster, version="v2", nonce="n2", bodies=bad))
                nack = await _next_request(upstream, Messages.cluster, read)
                assert nack.response_nonce == "n2"
                status = running.relay.status
                clusters = status.types[Messages.cluster]
                assert status.connected
                assert (clusters.version, clusters.acked) == ("v2", False)
                assert clusters.in_use == "v1"
                assert clusters.nack == nack.error_detail.message
                assert clusters.nack

                await upstream.send(
                    respond(Messages.cluster, version="v3", nonce="n3", bodies=good)
                )
                await _next_request(upstream, Messages.cluster, read)
                assert running.relay.status.types[Messages.cluster].in_use == "v3"


async def test_envoy_comes_back_by_itself_after_the_control_plane_was_away(
    start_relay: RelayStarter, envoy_binary: Path, free_port: Callable[[], int]
) -> None:
    address = f"127.0.0.1:{free_port()}"
    async with start_relay(address) as running:
        async with running_envoy(envoy_binary, running.socket_path, "GRPC"):
            async with control_plane(address=address) as plane:
                upstream = await plane.accept()
                await _next_request(upstream, Messages.cluster, Messages.read_request)
            async with control_plane(address=address) as plane:
                upstream = await plane.accept()
                await _next_request(upstream, Messages.cluster, Messages.read_request)
                await upstream.send(
                    Messages.response(Messages.cluster, version="v1", nonce="n1", bodies=())
                )
                await _next_request(upstream, Messages.cluster, Messages.read_request)
                assert running.relay.status.connected
                assert running.relay.status.types[Messages.cluster].acked


@pytest.mark.parametrize("api_type", ["GRPC", "DELTA_GRPC"])
async def test_both_envoys_of_a_hot_restart_are_served_by_one_relay(
    start_relay: RelayStarter, envoy_binary: Path, socket_dir: Path, *, api_type: str
) -> None:
    delta = api_type == "DELTA_GRPC"
    read: _Read = Messages.read_delta_request if delta else Messages.read_request
    respond = Messages.delta_response if delta else Messages.response

    async def configure(upstream: ControlPlaneStream) -> None:
        """Give an Envoy all it waits for."""
        await _next_request(upstream, Messages.cluster, read)
        await upstream.send(respond(Messages.cluster, version="v1", nonce="c1", bodies=()))
        await _next_request(upstream, Messages.listener, read)
        await upstream.send(respond(Messages.listener, version="v1", nonce="l1", bodies=()))
        while (await _next_request(upstream, Messages.listener, read)).response_nonce != "l1":
            pass

    async def accepts(upstream: ControlPlaneStream, version: str) -> None:
        await upstream.send(respond(Messages.cluster, version=version, nonce=version, bodies=()))
        while (await _next_request(upstream, Messages.cluster, read)).response_nonce != version:
            pass

    base_id, admin = socket_dir / "base-id", socket_dir / "hot-admin"
    common = ("--socket-path", str(socket_dir / "hot"), "--parent-shutdown-time-s", "600")
    first = (*common, "--use-dynamic-base-id", "--base-id-path", str(base_id))
    try:
        async with control_plane() as plane, start_relay(plane.address) as running:
            path = running.socket_path
            async with running_envoy(envoy_binary, path, api_type, hot_restart=first, admin=admin):
                old = await plane.accept()
                await configure(old)
                await _until_at_work(admin)
                second = (*common, "--base-id", base_id.read_text(), "--restart-epoch", "1")
                async with running_envoy(envoy_binary, path, api_type, hot_restart=second):
                    new = await plane.accept()
                    await configure(new)
                    await accepts(old, "v2")
                    await accepts(new, "v3")
                    await accepts(old, "v4")
                    status = running.relay.status
                    assert (status.streams, status.connected) == (2, True)
                    assert status.types[Messages.cluster].in_use == "v3"
                await new.closed.wait()
                # The control plane sees a stream end before the relay has let it go.
                await running.until(lambda relay: relay.status.streams == 1, what="one stream")
                await accepts(old, "v5")
                status = running.relay.status
                assert (status.streams, status.connected) == (1, True)
                assert status.types[Messages.cluster].in_use == "v5"
    finally:  # what killed processes leave
        for socket in socket_dir.glob("hot*"):
            socket.unlink()
        Path(f"/dev/shm/envoy_shared_memory_{base_id.read_text()}0").unlink(missing_ok=True)
