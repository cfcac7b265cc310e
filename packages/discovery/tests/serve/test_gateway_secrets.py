"""Keys of gateways are sent to whom they are for, and shown nowhere else."""

import base64
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mesh_ca import load_or_create_authority
from mesh_testkit.certificates import Authority, Issued
from planes import Plane
from registering import OPTIONS, shown
from xds_server import type_urls
from xds_server.testing import DeltaClient, SotwClient, StreamEnded, over_grpc

Start = Callable[..., Awaitable[Plane]]
ISSUED = Authority().issue("a.example")
NAME = "kubernetes://shop"
LABELS = {"LABELS": {"istio": "ingressgateway"}}
NODE = "router~10.0.0.1~gw.{0}~{0}.svc.cluster.local"


GATEWAY = """\
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: shop, namespace: shop}
spec:
  selector: {istio: ingressgateway}
  servers:
  - port: {number: 443, name: https, protocol: HTTPS}
    hosts: ["*"]
    tls: {mode: SIMPLE, credentialName: shop}
"""
KNOWN = """\
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: gw, namespace: shop}
spec: {address: 10.0.0.1, labels: {istio: ingressgateway}, serviceAccount: gw}
"""


def document(issued: Issued, *, key: bytes | None = None) -> str:
    values = {"tls.crt": issued.chain_pem, "tls.key": issued.key_pem if key is None else key}
    data = "".join(
        f"  {name}: {base64.b64encode(each).decode()}\n" for name, each in values.items()
    )
    return (
        "apiVersion: v1\nkind: Secret\nmetadata: {name: shop, namespace: shop}\n"
        f"type: kubernetes.io/tls\ndata:\n{data}---\n{GATEWAY}"
    )


def canaries(*values: bytes) -> Iterator[str]:
    """Yield pieces of values, as they are and as they stand in the file."""
    for each in values:
        lines = each.decode().splitlines()
        yield max(lines, key=len)[:40]
        yield base64.b64encode(each).decode()[60:100]


async def asked(
    plane: Plane,
    namespace: str,
    *,
    as_namespace: str | None = None,
    account: str = "gw",
    secure: bool = True,
) -> dict[str, Any]:
    """Return the secrets that a router gets, over a new connection; it also asks for its listeners.

    as_namespace, account: those of its certificate.
    """
    address = plane.secure_grpc if secure else plane.grpc
    credentials = None
    if secure:
        authority = load_or_create_authority(plane.ca_dir, trust_domain="cluster.local")
        credentials = shown(authority, as_namespace or namespace, account)
    async with over_grpc(address, credentials=credentials, options=OPTIONS) as wire:
        client = SotwClient(wire, node_id=NODE.format(namespace), metadata=LABELS)
        await client.subscribe(type_urls.SECRET, NAME)
        await client.subscribe(type_urls.LISTENER)
        found: dict[str, Any] = {}
        while True:
            reply = await client.next()
            if reply.type_url == type_urls.LISTENER:
                return found
            found |= reply.resources


async def test_key_goes_to_routers_whose_account_a_gateway_names_it_for(
    config_dir: Path, start_plane: Start
) -> None:
    (config_dir / "shop.yaml").write_text(document(ISSUED))
    (config_dir / "known.yaml").write_text(KNOWN)
    plane = await start_plane(config_dir)

    assert list(await asked(plane, "shop")) == [NAME]
    assert await asked(plane, "shop", account="web") == {}
    assert await asked(plane, "other") == {}
    assert await asked(plane, "shop", secure=False) == {}
    with pytest.raises(StreamEnded, match="PERMISSION_DENIED"):
        await asked(plane, "shop", as_namespace="other")


async def test_key_goes_over_plaintext_only_where_that_is_asked_for(
    config_dir: Path, start_plane: Start
) -> None:
    (config_dir / "shop.yaml").write_text(document(ISSUED))
    plane = await start_plane(config_dir, "--plaintext-secrets")

    assert list(await asked(plane, "shop", secure=False)) == [NAME]


async def test_no_key_is_in_a_log_a_page_or_a_message(
    config_dir: Path, start_plane: Start, eventually: Callable[..., Awaitable[Any]]
) -> None:
    wrong = Authority().issue("b.example")
    (config_dir / "shop.yaml").write_text(document(ISSUED))
    (config_dir / "known.yaml").write_text(KNOWN)
    plane = await start_plane(config_dir, "--log-level=debug")
    assert await asked(plane, "shop")
    await asked(plane, "shop", secure=False)
    (config_dir / "shop.yaml").write_text(document(ISSUED, key=wrong.key_pem))

    async def is_reported() -> bool:
        status = await plane.get("/debug/status")
        return bool(status["wrong_files"])

    await eventually(is_reported, what="the mistake in the file")
    wire: SotwClient | DeltaClient
    async with over_grpc(plane.grpc) as stream:
        wire = SotwClient(stream, node_id=NODE.format("shop"), metadata=LABELS)
        await wire.subscribe(type_urls.SECRET, NAME)
        await wire.subscribe(type_urls.LISTENER)
        await wire.next()
        pages = [
            str(await plane.get(f"/debug/{page}"))
            for page in (
                "status",
                "syncz",
                "configz",
                "registryz",
                "config_dump?proxyID=gw.shop",
                "ndsz?proxyID=gw.shop",
            )
        ]
    texts = ["".join(plane.process.output), *pages]
    assert "is not the key of the certificate beside it" in texts[1]
    assert "secure port alone" in texts[1]
    assert "'keys': ['tls.crt', 'tls.key']" in texts[3]
    for canary in canaries(ISSUED.key_pem, wrong.key_pem):
        assert [canary in each for each in texts] == [False] * len(texts)
