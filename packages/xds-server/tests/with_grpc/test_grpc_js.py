"""gRPC's client for Node, a second implementation: its versions are pinned in `grpc_js`."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from envoy.admin.v3 import config_dump_shared_pb2
from envoy.service.status.v3 import csds_pb2

from xds_server import Listener

HERE = Path(__file__).parent / "grpc_js"
CSDS = "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus"
ACKED = config_dump_shared_pb2.ClientResourceStatus.ACKED
pytestmark = pytest.mark.slow  # it installs from npm


@pytest.fixture
async def command(request: pytest.FixtureRequest, tmp_path: Path) -> list[str | Path]:
    """How to run the client, its libraries installed where the next run finds them."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("node and npm are not on this machine")
    cache = getattr(request.config, "cache", None)
    directory = tmp_path if cache is None else cache.mkdir("xds-server-grpc-js")
    for file in HERE.iterdir():
        shutil.copyfile(file, directory / file.name)
    installed, wanted = directory / "installed.json", (HERE / "package-lock.json").read_bytes()
    if not installed.exists() or installed.read_bytes() != wanted:
        await install(npm, directory)
        installed.write_bytes(wanted)
    return [node, directory / "client.mjs"]


async def install(npm: str, directory: Path) -> None:
    options = ("--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1")
    process = await asyncio.create_subprocess_exec(
        *(npm, "ci", *options),
        cwd=directory,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    if process.returncode:
        unreachable = any(word in said for word in (b"ENOTFOUND", b"EAI_AGAIN", b"ECONN", b"ETIME"))
        text = said.decode(errors="replace")
        assert unreachable, text
        pytest.skip(f"the npm registry cannot be reached: {text[-300:]}")


async def test_it_resolves_follows_endpoints_and_has_accepted_everything(
    listener: Listener, followed: Any, command: list[str | Path]
) -> None:
    async with followed(listener, *command) as client:
        port = await client.tell("status")
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            query = channel.unary_unary(
                CSDS,
                csds_pb2.ClientStatusRequest.SerializeToString,
                csds_pb2.ClientStatusResponse.FromString,
            )
            response: Any = await query(csds_pb2.ClientStatusRequest())
    (config,) = response.config
    found = {entry.name: entry for entry in config.generic_xds_configs}
    assert found.keys() == {"web", "route", "cluster", "shard"}
    assert {entry.client_status for entry in found.values()} == {ACKED}
    assert config.node.locality.zone == "there"
