"""TLS clients of gateways, and a service behind them."""

import ssl
from pathlib import Path

import aiohttp

from gateway_documents import service
from mesh_ca.testing import signing_request
from mesh_testkit.certificates import Authority, Issued
from scenarios import Echo, MeshEnvoy, Scene


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
