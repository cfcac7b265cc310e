"""gRPC's own xDS client in a process of its own: what it accepts and refuses, and what it hears."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from documents import Documents, entry
from planes import Plane, run_command

Start = Callable[..., Awaitable[Any]]
GENERATED = Path(__file__).parents[3] / "envoy-config" / "tests" / "generate" / "proxyless"
MESH, RULES = (GENERATED / "mesh.yaml").read_text(), (GENERATED / "rules.yaml").read_text()
NODE_ID = "sidecar~10.0.0.9~caller.shop~shop.svc.cluster.local"

# Prints a line for each line of input: the client's state of each resource. gRPC has no way to be
# asked for a listener alone, so it calls, and need not be answered.
CLIENT = """
import json, sys
import grpc, grpc.experimental, grpc_csds
from envoy.service.status.v3 import csds_pb2

plaintext = grpc.experimental.insecure_channel_credentials()
credentials = grpc.xds_channel_credentials(plaintext)
channels = [grpc.secure_channel(target, credentials) for target in sys.argv[1:]]
for channel in channels:
    channel.unary_unary("/x.X/Y", None, None).future(b"", wait_for_ready=True)
servicer = grpc_csds.ClientStatusDiscoveryServiceServicer()
for _ in sys.stdin:
    status = servicer.FetchClientStatus(csds_pb2.ClientStatusRequest(), None)
    print(json.dumps({
        each.type_url.rpartition(".")[2] + " " + each.name: each.client_status
        for config in status.config for each in config.generic_xds_configs
    }), flush=True)
"""
DOES_NOT_EXIST, ACKED, NACKED = 2, 3, 4


class Caller:
    """A running client."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def states(self) -> dict[str, int]:
        """Return the state of each resource in the client, by type and name."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        found: dict[str, int] = json.loads(await self._process.stdout.readline())
        return found


@asynccontextmanager
async def calling(
    plane: Plane, directory: Path, *targets: str, provider: bool = True
) -> AsyncIterator[Caller]:
    """Run a client of these targets. provider: its bootstrap says where certificates are."""
    bootstrap: dict[str, Any] = {
        "xds_servers": [
            {
                "server_uri": plane.grpc,
                "channel_creds": [{"type": "insecure"}],
                "server_features": ["xds_v3"],
            }
        ],
        "node": {"id": NODE_ID, "metadata": {"GENERATOR": "grpc", "NAMESPACE": "shop"}},
    }
    if provider:
        files = ("certificate_file", "private_key_file", "ca_certificate_file")
        config = {name: str(directory / name) for name in files}
        bootstrap["certificate_providers"] = {
            "default": {"plugin_name": "file_watcher", "config": config}
        }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CLIENT, *(f"xds:///{target}" for target in targets)),
        env={
            **os.environ,
            "GRPC_XDS_BOOTSTRAP_CONFIG": json.dumps(bootstrap),
            "no_grpc_proxy": "*",
        },
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield Caller(process)
    finally:
        process.kill()
        await process.communicate()


@pytest.mark.parametrize("mode", ["PERMISSIVE", "STRICT"])
async def test_it_accepts_all_that_it_is_given(
    mode: str,
    config_dir: Path,
    tmp_path: Path,
    yaml: Documents,
    *,
    start_plane: Start,
    eventually: Start,
) -> None:
    """Clusters of both types, unequal weights, no endpoints, endpoints that differ."""
    (config_dir / "mesh.yaml").write_text(MESH)
    (config_dir / "policy.yaml").write_text(yaml.peer_authentication(mode))
    names = ("greeter:50051", "greeter.shop:50051", "idle:50051", "api.example.com:443")
    clusters = {
        f"outbound|50051||{name}.shop.svc.cluster.local" for name in ("greeter", "idle")
    } | {"outbound|443||api.example.com"}
    wanted = {f"Listener {name}" for name in names}
    wanted |= {f"RouteConfiguration {name}" for name in clusters}
    wanted |= {f"Cluster {name}" for name in clusters}
    wanted |= {f"ClusterLoadAssignment {name}" for name in clusters if "api" not in name}
    plane = await start_plane(config_dir)

    async with calling(plane, tmp_path, *names) as caller:
        await eventually(
            caller.states, wanted=dict.fromkeys(wanted, ACKED), what="every resource accepted"
        )


@pytest.mark.slow
async def test_what_it_refuses_and_asks_for_in_vain_is_in_the_status(
    config_dir: Path,
    tmp_path: Path,
    yaml: Documents,
    start_plane: Start,
    eventually: Start,
) -> None:
    """An agent without OUTPUT_CERTS names no files of certificates, and mutual TLS is demanded."""
    (config_dir / "mesh.yaml").write_text(MESH)
    (config_dir / "policy.yaml").write_text(yaml.peer_authentication("STRICT"))
    plane = await start_plane(config_dir)
    refused = "Cluster outbound|50051||greeter.shop.svc.cluster.local"

    async def said() -> str:
        code, output = await run_command(
            tmp_path, "status", f"--monitoring-addr={plane.monitoring}"
        )
        assert code in (0, 1)
        return output

    async with calling(plane, tmp_path, "greeter:50051", "greeter:1", provider=False) as caller:

        async def state() -> tuple[int | None, int | None]:
            states = await caller.states()
            return states.get(refused), states.get("Listener greeter:1")

        await eventually(state, wanted=(NACKED, DOES_NOT_EXIST), what="a refusal, and an absence")
        text = await said()

    who = NODE_ID.split("~")[2]
    assert f"clusters, by the proxy of {who}: " in text
    assert "certificate provider" in text
    assert f"not served: greeter:1, which the gRPC program {who} asks for: " in text
    assert "has no TCP port 1, but 50051" in text


@pytest.mark.slow
async def test_a_service_that_comes_goes_and_comes_is_followed(
    config_dir: Path, tmp_path: Path, start_plane: Start, eventually: Start
) -> None:
    plane = await start_plane(config_dir)
    file = config_dir / "late.yaml"
    spec = (
        "hosts: [late.shop.svc.cluster.local], resolution: STATIC, "
        "ports: [{number: 80, name: grpc, protocol: GRPC}], endpoints: [{address: 127.0.0.1}]"
    )

    async with calling(plane, tmp_path, "late:80") as caller:

        async def state() -> int | None:
            return (await caller.states()).get("Listener late:80")

        for wanted in (DOES_NOT_EXIST, ACKED, DOES_NOT_EXIST, ACKED):
            if wanted == ACKED:
                file.write_text(entry("late", spec, namespace="shop"))
            else:
                file.unlink(missing_ok=True)
            await eventually(state, wanted=wanted, what=f"state {wanted}")


async def test_it_accepts_routes_and_subsets_of_rules(
    config_dir: Path, tmp_path: Path, *, start_plane: Start, eventually: Start
) -> None:
    """A match by method, weights, a fault, a ring, outliers, a limit of calls."""
    (config_dir / "mesh.yaml").write_text(MESH)
    (config_dir / "rules.yaml").write_text(RULES)
    plane = await start_plane(config_dir)
    host = "greeter.shop.svc.cluster.local"
    subsets = {f"outbound|50051|{subset}|{host}" for subset in ("v1", "v2")}
    wanted = {"Listener greeter:50051", f"RouteConfiguration outbound|50051||{host}"}
    wanted |= {
        f"{kind} {name}" for kind in ("Cluster", "ClusterLoadAssignment") for name in subsets
    }

    async with calling(plane, tmp_path, "greeter:50051") as caller:

        async def accepted() -> bool:
            states = await caller.states()
            assert NACKED not in states.values(), states
            return {name for name, state in states.items() if state == ACKED} >= wanted

        await eventually(accepted, what="all that rules lead to")
