"""A running control plane sends agents the ProxyConfigs for them, and strangers the roots alone."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from mesh_protos import type_urls
from mesh_protos.proxy_config_pb2 import ProxyConfig
from planes import Plane
from xds_server.testing import ADS_DELTA, ADS_SOTW, DeltaClient, Reply, SotwClient, over_grpc

Start = Callable[..., Awaitable[Plane]]
Replace = Callable[[Path, str], None]

OBJECTS = """\
apiVersion: networking.istio.io/v1beta1
kind: ProxyConfig
metadata: {name: mesh, namespace: istio-system}
spec: {concurrency: 1, environmentVariables: {REGION: north, TIER: canary-of-mesh}}
---
apiVersion: networking.istio.io/v1beta1
kind: ProxyConfig
metadata: {name: shop, namespace: shop}
spec: {environmentVariables: {TIER: canary-of-shop}}
---
apiVersion: networking.istio.io/v1beta1
kind: ProxyConfig
metadata: {name: cart, namespace: shop}
spec: {selector: {matchLabels: {app: cart}}, concurrency: THREADS}
"""
NODE = "sidecar~127.9.9.1~cart.shop~shop.svc.cluster.local"
CART: Mapping[str, Any] = {"LABELS": {"app": "cart"}}


def config_in(reply: Reply) -> ProxyConfig:
    (body,) = reply.resources.values()
    found = ProxyConfig.FromString(body)
    assert [x509.load_pem_x509_certificate(each.encode()) for each in found.ca_certificates_pem]
    return found


def settings_in(reply: Reply) -> tuple[int | None, dict[str, str]]:
    found = config_in(reply)
    concurrency = found.concurrency.value if found.HasField("concurrency") else None
    return concurrency, dict(found.proxy_metadata)


@pytest.mark.parametrize(("kind", "path"), [(SotwClient, ADS_SOTW), (DeltaClient, ADS_DELTA)])
async def test_an_agent_is_sent_its_settings_and_each_edit_of_them(
    kind: type[SotwClient] | type[DeltaClient],
    path: str,
    config_dir: Path,
    start_plane: Start,
    replace: Replace,
) -> None:
    file = config_dir / "proxies.yaml"
    file.write_text(OBJECTS.replace("THREADS", "4"))
    plane = await start_plane(config_dir)

    async with over_grpc(plane.grpc, path=path) as wire:
        agent = kind(wire, node_id=NODE, metadata=CART)
        await agent.subscribe(type_urls.PROXY_CONFIG)
        variables = {"REGION": "north", "TIER": "canary-of-shop"}
        assert settings_in(await agent.next()) == (4, variables)
        replace(file, OBJECTS.replace("THREADS", "0"))
        assert settings_in(await agent.next()) == (0, variables)
        file.unlink()
        assert settings_in(await agent.next()) == (None, {})


async def test_a_caller_that_proves_nothing_is_sent_the_roots_alone(
    config_dir: Path, start_plane: Start
) -> None:
    (config_dir / "proxies.yaml").write_text(OBJECTS.replace("THREADS", "4"))
    plane = await start_plane(config_dir, believed=False)

    async with over_grpc(plane.grpc) as wire:
        stranger = SotwClient(wire, node_id=NODE, metadata=CART)
        await stranger.subscribe(type_urls.PROXY_CONFIG)
        found = config_in(await stranger.next())
    assert [field.name for field, _ in found.ListFields()] == ["ca_certificates_pem"]
