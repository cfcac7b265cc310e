"""The mesh gets another root under load: each peer has a root before it meets its certificates."""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509

from mesh_e2e import (
    Target,
    Unanswered,
    constant_load,
    is_below,
    issued_to,
    mesh_client_context,
    mesh_of,
    presented_certificate,
    run_command,
    send,
    trusted_roots,
)
from mesh_local import RunningMesh, RunningWorkload
from mesh_testkit import PATIENCE_S, until

pytestmark = pytest.mark.slow

# Certificates that live for an hour: within the test they are renewed for the roots' sake only.
MESH = """\
    mesh: {certificateLifetime: 1h, drain: 1s}
    workloads:
      - name: backend
        ports: [{port: 8080}, {port: 9000, protocol: tcp}]
        command: ECHO
        env: {PORTS: 8080 9000}
      - {name: frontend, ports: [{port: 8081}], command: ECHO}
"""
CLIENT = "spiffe://cluster.local/ns/default/sa/client"


@dataclass(slots=True, kw_only=True)
class Sightings:
    """When a workload's Envoy first had the new root, and first a certificate below it."""

    root_at: float | None = None
    leaf_at: float | None = None


async def watch(
    workload: RunningWorkload, new_root: x509.Certificate, context: ssl.SSLContext, seen: Sightings
) -> None:
    """Look until both were seen; first at the root, so that the order seen is no accident."""
    loop = asyncio.get_running_loop()
    while seen.leaf_at is None:
        if seen.root_at is None and new_root in await trusted_roots(workload):
            seen.root_at = loop.time()
        if is_below(await presented(workload, context), new_root):
            seen.leaf_at = loop.time()
        await asyncio.sleep(0.05)


async def presented(workload: RunningWorkload, context: ssl.SSLContext) -> x509.Certificate:
    instance = workload.instance
    port = instance.workload.ports[0].port
    return await presented_certificate(instance.addresses.inbound, port, context)


async def until_only(mesh: RunningMesh, root: x509.Certificate) -> None:
    """Wait until no Envoy trusts anything but this root."""
    for workload in mesh.workloads:

        async def trusts_it_alone() -> bool:
            return await trusted_roots(workload) == (root,)  # noqa: B023

        await until(trusts_it_alone, what=f"{workload.instance.name} to trust one root only")


async def replace_root(ca: Path, directory: Path) -> str:
    """Have the root replaced; return what is said."""
    status, output, errors = await run_command(
        *("mesh_discovery", "replace-root", "--ca-dir", str(ca)),
        *("--spread", "6s", "--retirement", "12s"),
        environment={},
        directory=directory,
    )
    assert status == 0, errors
    return output


def certificate_in(file: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(file.read_bytes())


async def test_the_root_is_replaced_under_load(
    tmp_path: Path, record: Callable[[str, object], None]
) -> None:
    async with mesh_of(MESH, tmp_path) as mesh:
        ca, backend = mesh.state.ca, mesh.workload("backend")
        outbound = mesh.workload("frontend").instance.addresses.outbound
        http = Target(host=outbound, port=15002, url="http://backend:8080/", authority="backend")
        # Each connection to a TCP port is a handshake of its own between the two Envoys.
        tcp = Target(host=outbound, port=9000)
        inbound = backend.instance.addresses.inbound
        old_client = mesh_client_context(mesh, tmp_path / "old", CLIENT)
        old = Target(host=inbound, port=8080, tls=old_client)
        old_root = certificate_in(ca / "ca-cert.pem")
        async with (
            constant_load(http, rate_per_s=50) as over_http,
            constant_load(tcp, rate_per_s=50) as over_tcp,
        ):
            await over_http.until_answered(20)
            await over_tcp.until_answered(20)
            async with constant_load(old, rate_per_s=20, workers=4) as with_old_leaf:
                seen = {each.instance.name: Sightings() for each in mesh.workloads}
                async with asyncio.timeout(2 * PATIENCE_S), asyncio.TaskGroup() as group:
                    replacing = group.create_task(replace_root(ca, tmp_path), name="replace root")
                    # Before the command has ended: the time until the new root signs runs.
                    await until((ca / "next-ca-cert.pem").exists, what="the new root")
                    new_root = certificate_in(ca / "next-ca-cert.pem")
                    for each in mesh.workloads:
                        looking = watch(each, new_root, old_client, seen[each.instance.name])
                        group.create_task(looking, name=f"watch {each.instance.name}")
                assert "signs in 6s" in replacing.result()
                new_client = mesh_client_context(mesh, tmp_path / "new", CLIENT)
                new = Target(host=inbound, port=8080, tls=new_client)
                assert certificate_in(ca / "ca-cert.pem") == new_root
                async with constant_load(new, rate_per_s=20, workers=4) as with_new_leaf:
                    await with_new_leaf.until_answered(20)
                    await with_old_leaf.until_answered(20)
            await until_only(mesh, new_root)
            await over_http.until_answered(50)
            await over_tcp.until_answered(50)
        for load in (over_http, over_tcp, with_old_leaf, with_new_leaf):
            assert load.report.failures == []
        first_leaf = min(each.leaf_at for each in seen.values() if each.leaf_at is not None)
        for name, sightings in seen.items():
            assert sightings.root_at is not None
            assert sightings.root_at < first_leaf, f"{name} met a certificate before its root"
        for workload in mesh.workloads:
            assert is_below(await presented(workload, new_client), new_root)
            record(
                f"certificates issued to {workload.instance.name}", len(issued_to(mesh, workload))
            )
        with pytest.raises((Unanswered, ssl.SSLError, ConnectionError)):
            await send(old)
        await until_agents_come_back(mesh, old_root)
        for name, load in (("HTTP", over_http), ("TCP", over_tcp)):
            record(f"{name} through two Envoys", load.report.summary())
        record("old leaf", with_old_leaf.report.summary())
        record("new leaf", with_new_leaf.report.summary())


async def until_agents_come_back(mesh: RunningMesh, old_root: x509.Certificate) -> None:
    """What an agent itself trusts the control plane by must have followed, too."""
    for workload in mesh.workloads:
        file = mesh.state.workload(workload.instance.name)
        file /= "var/run/secrets/istio/root-cert.pem"
        await until(
            lambda: old_root not in x509.load_pem_x509_certificates(file.read_bytes()),  # noqa: B023
            what=f"{file} to hold the new root only",
        )
