"""Documents of gateways, as YAML, and TLS clients of theirs."""

import base64
import json
import ssl
from pathlib import Path
from typing import Any

import aiohttp

from mesh_ca.testing import signing_request
from mesh_testkit.certificates import Authority, Issued
from scenarios import Echo, MeshEnvoy, Scene

S = "s.b.svc.cluster.local"


def gateway(
    *servers: dict[str, Any], name: str = "gw", namespace: str = "b", created: str = ""
) -> str:
    return _document(
        "networking.istio.io/v1",
        "Gateway",
        name,
        namespace,
        created=created,
        spec={"selector": {"istio": "ingressgateway"}, "servers": list(servers)},
    )


def server(
    protocol: str, number: int, *hosts: str, name: str = "", **fields: Any
) -> dict[str, Any]:
    port = {"number": number, "name": name or protocol.lower(), "protocol": protocol}
    return {"port": port, "hosts": list(hosts), **fields}


def virtual_service(
    *hosts: str,
    name: str = "vs",
    namespace: str = "b",
    gateways: tuple[str, ...] = ("b/gw",),
    created: str = "",
    **routes: Any,
) -> str:
    return _document(
        "networking.istio.io/v1",
        "VirtualService",
        name,
        namespace,
        created=created,
        spec={"hosts": list(hosts), "gateways": list(gateways), **routes},
    )


def to(host: str = S, port: int = 80) -> list[dict[str, Any]]:
    return [{"destination": {"host": host, "port": {"number": port}}}]


def secret(name: str, issued: Issued, *, namespace: str = "b", roots: bytes = b"") -> str:
    values = {"tls.crt": issued.chain_pem, "tls.key": issued.key_pem}
    if roots:
        values["ca.crt"] = roots
    encoded = {key: base64.b64encode(each).decode() for key, each in values.items()}
    return _document("v1", "Secret", name, namespace, type="kubernetes.io/tls", data=encoded)


def service(
    *addresses: str, host: str = S, port: int = 8080, protocol: str = "HTTP", **fields: Any
) -> str:
    name, namespace = host.split(".")[:2]
    ports = [{"number": 80, "name": "port", "protocol": protocol, "targetPort": port}]
    return _document(
        "networking.istio.io/v1",
        "ServiceEntry",
        name,
        namespace,
        spec={
            "hosts": [host],
            "location": "MESH_INTERNAL",
            "resolution": "STATIC",
            "ports": ports,
            "endpoints": [{"address": each, **fields} for each in addresses],
        },
    )


def _document(
    version: str, kind: str, name: str, namespace: str, *, created: str = "", **fields: Any
) -> str:
    metadata = {"name": name, "namespace": namespace}
    if created:
        metadata["creationTimestamp"] = created
    whole = {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}
    return f"{json.dumps(whole)}\n"


def client_context(
    authority: Authority, tmp_path: Path, certificate: Issued | None = None
) -> ssl.SSLContext:
    """Return the context of a client that believes an authority, and may show a certificate."""
    context = ssl.create_default_context(cadata=authority.root_pem.decode())
    # Python 3.13 demands extensions of certificates that these, as many in the field, do not have.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if certificate is not None:
        file = tmp_path / f"client-{id(certificate)}.pem"
        file.write_bytes(certificate.key_pem + certificate.chain_pem)
        context.load_cert_chain(file)
    return context


def mesh_context(scene: Scene, namespace: str, service_account: str) -> ssl.SSLContext:
    """Return the context of a client with a certificate of the mesh, as proxies have."""
    key, csr = signing_request()
    authority = scene.plane.authority
    trust_domain = scene.plane.context.model.trust_domain
    identity = f"spiffe://{trust_domain}/ns/{namespace}/sa/{service_account}"
    chain = b"".join(authority.sign(csr, identities=[identity]).chain_pem)
    file = scene.tmp_path / f"{namespace}-{service_account}.pem"
    file.write_bytes(key + chain)
    context = ssl.create_default_context(cadata=authority.root_pem.decode())
    context.check_hostname = False  # its name is a SPIFFE id
    context.load_cert_chain(file)
    return context


async def plain_service(scene: Scene) -> Echo:
    """Serve s.b by one echo server of plain HTTP."""
    echo = await scene.echo("v1")
    await scene.apply(service_s=service(echo.address, port=echo.port))
    return echo


async def fails_to_shake_hands(router: MeshEnvoy, url: str, context: ssl.SSLContext) -> bool:
    """Tell whether a connection comes to no TLS session, or is closed before any answer."""
    try:
        await router.get(url, ssl=context)
    except (aiohttp.ClientError, ConnectionError):
        return True
    return False
