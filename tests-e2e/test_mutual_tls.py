"""Who may talk to whom: certificates of this mesh open the door, nothing else does."""

import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from mesh_e2e import ForeignAuthority, Target, Unanswered, mesh_client_context, mesh_of, send
from mesh_local import RunningMesh
from mesh_testkit import until

MESH = """\
    mesh: {trustDomain: example.org}
    workloads:
      - name: backend
        namespace: shop
        ports: [{port: 8080}, {port: 9000, protocol: tcp}]
        command: ECHO
        env: {PORTS: 8080 9000}
      - {name: relaxed, namespace: shop, ports: [{port: 8080}], command: ECHO}
      - {name: frontend, namespace: shop, serviceAccount: web}
    config:
      - apiVersion: security.istio.io/v1
        kind: PeerAuthentication
        metadata: {name: relaxed, namespace: shop}
        spec:
          selector: {matchLabels: {app: relaxed}}
          mtls: {mode: PERMISSIVE}
"""
WEB = "spiffe://example.org/ns/shop/sa/web"
REFUSED = (Unanswered, ConnectionError, ssl.SSLError)
BACKEND = "spiffe://example.org/ns/shop/sa/backend"


@pytest_asyncio.fixture
async def mesh(tmp_path: Path) -> AsyncIterator[RunningMesh]:
    async with mesh_of(MESH, tmp_path) as running:
        yield running


def through_frontend(mesh: RunningMesh, host: str) -> Target:
    """Send as the frontend's program would: through its Envoy, as an HTTP proxy."""
    addresses = mesh.workload("frontend").instance.addresses
    return Target(
        host=addresses.outbound, port=15002, url=f"http://{host}:8080/", authority=f"{host}:8080"
    )


def straight_to(
    mesh: RunningMesh, name: str, tls: ssl.SSLContext | None = None, *, port: int = 8080
) -> Target:
    """Send to a workload's Envoy without one of our own."""
    return Target(host=mesh.workload(name).instance.addresses.inbound, port=port, tls=tls)


def forwarded(body: bytes) -> dict[str, str]:
    header = json.loads(body)["headers"]["x-forwarded-client-cert"]
    # Envoy appends; what stands before the last element is only the caller's word.
    return dict(part.split("=", 1) for part in header.split(",")[-1].split(";"))


async def test_the_callee_sees_the_caller_s_spiffe_id(mesh: RunningMesh) -> None:
    outbound = mesh.workload("frontend").instance.addresses.outbound
    for host in ("backend", "backend.shop", "backend.shop.svc.cluster.local"):
        at_its_port = Target(host=outbound, port=8080, authority=f"{host}:8080")
        for target in (through_frontend(mesh, host), at_its_port):
            status, body = await send(target)
            assert status == 200
            assert forwarded(body)["URI"] == WEB
            assert forwarded(body)["By"] == BACKEND


async def test_a_tcp_port_is_mutual_tls_too(mesh: RunningMesh, tmp_path: Path) -> None:
    outbound = mesh.workload("frontend").instance.addresses.outbound
    status, body = await send(Target(host=outbound, port=9000))
    assert (status, json.loads(body)["served-by"]) == (200, "backend")
    assert "x-forwarded-client-cert" not in json.loads(body)["headers"], "Envoy saw only bytes"
    with pytest.raises(REFUSED):
        await send(straight_to(mesh, "backend", port=9000))
    context = mesh_client_context(mesh, tmp_path, WEB)
    status, _ = await send(straight_to(mesh, "backend", context, port=9000))
    assert status == 200


async def test_a_forged_header_does_not_hide_the_caller(mesh: RunningMesh, tmp_path: Path) -> None:
    context = mesh_client_context(mesh, tmp_path, WEB)
    forged = {"x-forwarded-client-cert": f"By={BACKEND};URI=spiffe://example.org/ns/a/sa/admin"}
    for target in (straight_to(mesh, "backend", context), through_frontend(mesh, "backend")):
        _, body = await send(replace(target, headers=forged))
        assert forwarded(body)["URI"] == WEB


async def test_only_a_certificate_of_the_mesh_is_accepted(
    mesh: RunningMesh, tmp_path: Path
) -> None:
    guest = "spiffe://example.org/ns/elsewhere/sa/guest"
    own = mesh_client_context(mesh, tmp_path / "own", guest)
    status, body = await send(straight_to(mesh, "backend", own))
    assert (status, forwarded(body)["URI"]) == (200, guest)
    for what, context in (
        ("plaintext", None),
        ("no certificate", without_certificate()),
        (
            "a certificate of another authority",
            ForeignAuthority(tmp_path / "ca", "example.org").client_context(tmp_path / "f", WEB),
        ),
    ):
        with pytest.raises(REFUSED):
            pytest.fail(f"{what}: {await send(straight_to(mesh, 'backend', context))}")


def without_certificate() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def test_a_permissive_port_takes_both_and_tells_them_apart(
    mesh: RunningMesh, tmp_path: Path
) -> None:
    status, body = await send(straight_to(mesh, "relaxed"))
    assert status == 200
    assert "x-forwarded-client-cert" not in json.loads(body)["headers"]
    status, body = await send(through_frontend(mesh, "relaxed.shop"))
    assert (status, forwarded(body)["URI"]) == (200, WEB)
    foreign = ForeignAuthority(tmp_path / "ca", "example.org")
    with pytest.raises(REFUSED):
        context = foreign.client_context(tmp_path / "client", WEB)
        pytest.fail(str(await send(straight_to(mesh, "relaxed", context))))


async def test_a_caller_refuses_a_callee_of_another_identity(mesh: RunningMesh) -> None:
    """A service's name leads to a workload that has a certificate of the mesh, but not its own."""
    address = mesh.workload("relaxed").instance.addresses.inbound
    file, target = mesh.state.config / "vault.yaml", through_frontend(mesh, "vault.shop")
    file.write_text(service_at(address, identity="spiffe://example.org/ns/shop/sa/vault"))
    answers = []

    async def is_refused() -> bool:
        answers.append(await send(target))
        assert answers[-1][0] != 200
        return b"connection failure" in answers[-1][1]

    async def is_answered() -> bool:
        answers.append(await send(target))
        return answers[-1][0] == 200

    await until(is_refused, what="the change to arrive", seen=lambda: answers[-1])
    assert answers[-1][0] == 503
    file.write_text(service_at(address, identity="spiffe://example.org/ns/shop/sa/relaxed"))
    await until(is_answered, what="the next change to arrive", seen=lambda: answers[-1])
    assert forwarded(answers[-1][1])["By"] == "spiffe://example.org/ns/shop/sa/relaxed"


def service_at(address: str, *, identity: str) -> str:
    return f"""\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: vault, namespace: shop}}
spec:
  hosts: [vault.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{{number: 8080, name: http, protocol: HTTP}}]
  subjectAltNames: [{identity}]
  endpoints:
    - address: {address}
      labels: {{security.istio.io/tlsMode: istio}}
"""
