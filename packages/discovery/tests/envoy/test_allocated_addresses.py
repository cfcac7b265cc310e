"""Connections to the addresses that are allocated to names are carried by an Envoy."""

import ctypes
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from documents import Documents
from named_services import entry


@pytest.fixture
def allocated_addresses_are_local() -> Iterator[None]:
    """Be in a network namespace where connections to allocated addresses go to this machine."""
    if os.geteuid() != 0:
        pytest.skip("a network namespace needs root")
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/thread-self/ns/net").open() as before:
        if libc.unshare(_NEW_NETWORK) != 0:
            pytest.skip(f"no network namespace: {os.strerror(ctypes.get_errno())}")
        try:
            for command in (
                "ip link set lo up",
                "ip route add local 240.240.0.0/16 dev lo",
            ):
                subprocess.run(command.split(), check=True)
            yield
        finally:
            assert libc.setns(before.fileno(), _NEW_NETWORK) == 0


_NEW_NETWORK = 0x40000000


@pytest.mark.usefixtures("allocated_addresses_are_local")
async def test_envoy_carries_what_connects_to_allocated_addresses(
    config_dir: Path,
    start_plane: Any,
    start_envoy: Any,
    *,
    serve_app: Any,
    yaml: Documents,
    eventually: Any,
) -> None:
    """With one route, and no interception; two TCP services have the same port."""
    for name, protocol in (("web", "http"), ("one", "tcp"), ("two", "tcp")):
        port = await serve_app(name, "127.94.1.2")
        (config_dir / f"{name}.yaml").write_text(
            entry(
                name,
                f"hosts: [{name}.test], "
                f"ports: [{{number: 80, name: {protocol}, protocol: {protocol}, "
                f"targetPort: {port}}}], resolution: STATIC, endpoints: [{{address: 127.94.1.2}}]",
            ).replace("number: 80, name: tcp", "number: 9000, name: tcp")
        )
    (config_dir / "policy.yaml").write_text(yaml.peer_authentication("DISABLE"))
    plane = await start_plane(config_dir)
    envoy = await start_envoy(
        "client", "127.94.2", plane.grpc, OUTBOUND_BIND_ADDRESS="", DNS_CAPTURE="true"
    )
    (shown,) = (await plane.get(f"/debug/ndsz?proxyID={envoy.node_id}"))["configs"]
    names = shown["table"]

    async def answered() -> dict[str, str]:
        found = {}
        for name, port in (("web", 80), ("one", 9000), ("two", 9000)):
            (address,) = names[f"{name}.test"]["ips"]
            headers = {"Host": f"{name}.test"}
            url = f"http://{address}:{port}/"
            async with aiohttp.request("GET", url, headers=headers) as response:
                found[name] = (await response.json())["app"]
        return found

    await eventually(
        answered, wanted={each: each for each in ("web", "one", "two")}, what="an answer of each"
    )
    assert await envoy.stat("listener_manager.lds.update_rejected") == 0
