"""An agent whose root file is not updated, while the mesh gets another root."""

from pathlib import Path

import pytest
from cryptography import x509

from mesh_e2e import (
    ROOT,
    TOKEN,
    environment_beside,
    has_all,
    mesh_of,
    put,
    run_command,
    running_agent,
    until_status,
)
from mesh_local import RunningMesh
from mesh_testkit import until

MESH = """\
    mesh: {certificateLifetime: 1h, drain: 1s}
    workloads:
      - {name: backend, ports: [{port: 8080}], command: ECHO}
"""
LEARNED = Path("etc/istio/proxy/learned-roots.json")


async def replace_root(mesh: RunningMesh, directory: Path) -> bytes:
    """Have the root replaced, and the old one retired; return the new one."""
    status, _, errors = await run_command(
        *("mesh_discovery", "replace-root", "--ca-dir", str(mesh.state.ca)),
        *("--spread", "2s", "--retirement", "2s"),
        environment={},
        directory=directory,
    )
    assert status == 0, errors
    new = x509.load_pem_x509_certificate((mesh.state.ca / "next-ca-cert.pem").read_bytes())
    roots = mesh.state.ca / "root-cert.pem"
    await until(
        lambda: x509.load_pem_x509_certificates(roots.read_bytes()) == [new],
        what="the old root's retirement",
    )
    return roots.read_bytes()


@pytest.mark.slow
async def test_an_agent_works_through_a_new_root_and_restarts_though_its_root_file_is_not_updated(
    tmp_path: Path,
) -> None:
    alone = tmp_path / "alone"
    async with mesh_of(MESH, tmp_path) as mesh:
        given = mesh.state.workload("backend")
        old_root = (given / ROOT).read_bytes()
        put(alone, ROOT, old_root)
        put(alone, TOKEN, (given / TOKEN).read_bytes())
        environment = environment_beside(mesh)
        async with running_agent(alone, environment) as agent:
            before = await until_status(agent, has_all, what="a first certificate")
            new_root = await replace_root(mesh, tmp_path)
            await until_status(
                agent,
                lambda status: (
                    has_all(status)
                    and status["certificate"]["serial"] != before["certificate"]["serial"]
                    and bool(status["learned_roots"]["roots"])
                ),
                what="a certificate below the new root",
            )
            since = (await agent.status())["xds"]["since"]
        # What is started now makes all its connections anew, by what was kept.
        assert (alone / ROOT).read_bytes() == old_root
        async with running_agent(alone, environment) as agent:
            status = await until_status(agent, has_all, what="all of it after a restart")
            assert status["xds"]["since"] > since
            assert status["learned_roots"]["problem"] is None
        (alone / LEARNED).write_text("{")
        async with running_agent(alone, environment) as agent:
            # As one that was away all the time: it has the old root, and no word of another.
            status = await until_status(
                agent,
                lambda status: bool(
                    status["certificate"].get("last_error") and status["xds"]["last_error"]
                ),
                what="the reasons",
            )
            assert not status["ready"]
            assert "it is damaged" in status["learned_roots"]["problem"]
            for reason in (status["certificate"]["last_error"], status["xds"]["last_error"]):
                assert "wrong root certificate" in reason
                assert key_id(new_root) in reason
                assert f"trusted is {subject(old_root)} (key id {key_id(old_root)}" in reason
                assert f"into {ROOT}" in reason
            # After the remedy that the message names, nothing has to be restarted.
            put(alone, ROOT, new_root)
            await until_status(agent, has_all, what="all of it with the new root in its file")


def key_id(pem: bytes) -> str:
    root = x509.load_pem_x509_certificate(pem)
    digest = root.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    return digest[:6].hex()


def subject(pem: bytes) -> str:
    return x509.load_pem_x509_certificate(pem).subject.rfc4514_string()
