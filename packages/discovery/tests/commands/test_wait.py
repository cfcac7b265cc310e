"""`mesh-discovery wait`: what was saved before is with every proxy when it returns."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from envoy.config.cluster.v3 import cluster_pb2
from envoy.service.discovery.v3 import discovery_pb2

from documents import Documents
from mesh_lifecycle import in_background
from mesh_protos import type_urls
from planes import Plane, run_command
from xds_server.testing import over_grpc

Start = Callable[..., Awaitable[Plane]]
REQUEST = discovery_pb2.DiscoveryRequest
EDITS = 8


class Proxy:
    """A proxy that asks for clusters and answers each response when a test says so."""

    def __init__(self, wire: Any) -> None:
        self._wire = wire
        self.names: set[str] = set()

    async def ask(self) -> None:
        request = REQUEST(type_url=type_urls.CLUSTER)
        request.node.id = "sidecar~127.1.8.1~client.default~default.svc.cluster.local"
        await self._wire.send(request.SerializeToString())

    async def receive(self) -> discovery_pb2.DiscoveryResponse:
        answer = discovery_pb2.DiscoveryResponse.FromString(await self._wire.receive())
        clusters = (cluster_pb2.Cluster.FromString(each.value) for each in answer.resources)
        self.names = {each.name.rpartition("|")[2] for each in clusters}
        return answer

    async def accept(self, answer: discovery_pb2.DiscoveryResponse, *, reason: str = "") -> None:
        """Accept a response, or refuse it for a reason."""
        request = REQUEST(
            type_url=type_urls.CLUSTER,
            version_info="" if reason else answer.version_info,
            response_nonce=answer.nonce,
        )
        if reason:
            request.error_detail.message = reason
        await self._wire.send(request.SerializeToString())

    async def accept_all(self) -> None:
        while True:
            await self.accept(await self.receive())


@asynccontextmanager
async def connected(plane: Plane) -> AsyncIterator[Proxy]:
    async with over_grpc(plane.grpc) as wire:
        proxy = Proxy(wire)
        await proxy.ask()
        yield proxy


async def wait(plane: Plane, cwd: Path, *arguments: str) -> tuple[int, str]:
    return await run_command(cwd, "wait", f"--monitoring-addr={plane.monitoring}", *arguments)


async def test_each_edit_is_with_the_proxy_when_it_returns(
    config_dir: Path, tmp_path: Path, start_plane: Start, yaml: Documents
) -> None:
    plane = await start_plane(config_dir)
    async with connected(plane) as proxy, in_background(proxy.accept_all(), name="proxy"):
        for number in range(EDITS):
            document = yaml.service(f"web{number}", "127.1.7.1", 80, 8080)
            (config_dir / "web.yaml").write_text(document)
            assert await wait(plane, tmp_path) == (0, "1 proxy has all that is saved\n")
            assert f"web{number}.default.svc.cluster.local" in proxy.names


async def test_a_proxy_that_has_not_answered_is_waited_for_and_named(
    config_dir: Path, tmp_path: Path, start_plane: Start
) -> None:
    plane = await start_plane(config_dir)
    async with connected(plane) as proxy:
        answer = await proxy.receive()
        assert await wait(plane, tmp_path, "--timeout=0s") == (
            1,
            "mesh-discovery: not accepted after 0 s by the proxies of: client.default\n",
        )
        await proxy.accept(answer)
        assert await wait(plane, tmp_path) == (0, "1 proxy has all that is saved\n")


async def test_what_a_proxy_refuses_is_reported_and_not_waited_for(
    config_dir: Path, tmp_path: Path, start_plane: Start
) -> None:
    plane = await start_plane(config_dir)
    async with connected(plane) as proxy:
        await proxy.accept(await proxy.receive(), reason="no such field")
        code, said = await wait(plane, tmp_path)
    assert code == 1
    assert "clusters, by the proxy of client.default: no such field" in said


async def test_a_file_with_a_mistake_is_reported_with_its_line(
    config_dir: Path, tmp_path: Path, start_plane: Start
) -> None:
    plane = await start_plane(config_dir)
    (config_dir / "bad.yaml").write_text("kind: X\n")
    code, said = await wait(plane, tmp_path)
    assert code == 1
    assert f"{config_dir}/bad.yaml:1: kind: unknown kind" in said
    (config_dir / "bad.yaml").unlink()
    assert await wait(plane, tmp_path) == (0, "0 proxies have all that is saved\n")


async def test_a_reading_that_takes_long_is_waited_for(
    config_dir: Path, tmp_path: Path, start_plane: Start, yaml: Documents
) -> None:
    plane = await start_plane(config_dir)
    documents = [yaml.service(f"web{number}", "127.1.7.1", 80, 8080) for number in range(2000)]
    (config_dir / "web.yaml").write_text("---\n".join(documents))
    assert await wait(plane, tmp_path) == (0, "0 proxies have all that is saved\n")
    assert len(await plane.get("/debug/registryz")) == len(documents)


async def test_a_port_where_nothing_listens_and_a_wrong_call_have_their_exit_codes(
    tmp_path: Path,
) -> None:
    nowhere = ("--monitoring-addr=127.0.0.1:9", "--timeout=5s")
    code, said = await run_command(tmp_path, "wait", *nowhere)
    assert code == 1
    assert said.startswith("mesh-discovery: nothing listens on 127.0.0.1:9: ")
    code, said = await run_command(tmp_path, "wait", "--timeout=soon")
    assert code == 2
    assert "--timeout is 'soon'" in said
