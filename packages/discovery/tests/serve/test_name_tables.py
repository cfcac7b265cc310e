"""Tables of names come to agents that answer DNS."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mesh_protos import type_urls
from mesh_protos.nds_pb2 import NameTable
from named_services import DOCUMENTS, WEB
from xds_server.testing import ADS_DELTA, ADS_SOTW, DeltaClient, SotwClient, over_grpc

UNSERVED = "type.googleapis.com/istio.workload.Workload"
METADATA = {"DNS_CAPTURE": "true", "DNS_AUTO_ALLOCATE": "true", "NAMESPACE": "default"}


@pytest.mark.parametrize("delta", [False, True])
async def test_istios_agent_with_dns_capture_gets_its_first_table_and_each_change(
    config_dir: Path, start_plane: Any, eventually: Any, *, delta: bool
) -> None:
    """It asks for names without naming any, after listeners, and is ready with the first table."""
    (config_dir / "web.yaml").write_text(DOCUMENTS[0])
    plane = await start_plane(config_dir)
    async with (
        over_grpc(plane.grpc, path=ADS_DELTA if delta else ADS_SOTW) as wire,
    ):
        kind = DeltaClient if delta else SotwClient
        client = kind(
            wire,
            node_id="sidecar~10.1.1.1~client.default~default.svc.cluster.local",
            metadata=METADATA,
        )
        for url in (type_urls.CLUSTER, type_urls.LISTENER, type_urls.NAME_TABLE):
            await client.subscribe(url)
        await client.subscribe(UNSERVED)
        first = await _next_table(client)
        assert set(first) == {WEB}

        # A policy has no part in names: what comes next is the table with the new service.
        (config_dir / "policy.yaml").write_text(
            "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\n"
            "metadata: {name: default, namespace: istio-system}\nspec: {mtls: {mode: STRICT}}\n"
        )

        async def served() -> bool:
            objects = (await plane.get("/debug/configz"))["objects"]
            return any(each["kind"] == "PeerAuthentication" for each in objects)

        await eventually(served, what="the policy")
        (config_dir / "fixed.yaml").write_text(DOCUMENTS[2])
        second = await _next_table(client)
        assert set(second) == {WEB, "fixed.test"}
        assert second[WEB] == first[WEB]

    shown = await plane.get("/metrics")
    assert f'xds_server_unserved_requests{{type="{UNSERVED}"}} 1.0' in shown
    assert plane.process.text.count("type not served") == 1


async def _next_table(client: Any) -> dict[str, tuple[str, ...]]:
    while True:
        async with asyncio.timeout(60):
            reply = await client.next()
        if reply.type_url == type_urls.NAME_TABLE:
            (body,) = reply.resources.values()
            names = NameTable.FromString(body).table
            return {host: tuple(info.ips) for host, info in names.items()}
