"""Keys and tokens stay where they belong: all run at their most talkative, and are searched."""

import asyncio
import base64
import json
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

import mesh_ca
from mesh_ca import TokenIssuer
from mesh_e2e import (
    Secret,
    Target,
    children_of,
    constant_load,
    issued_to,
    mesh_of,
    renewing_early,
    run_command,
    secret_key,
    secret_token,
    secrets_on_disk,
    send,
)
from mesh_local import Child, ChildState, OnExit, RunningMesh, RunningWorkload
from mesh_testkit import PATIENCE_S, until

pytestmark = pytest.mark.slow

MESH = """\
    mesh: {certificateLifetime: 60s, drain: 1s}
    workloads:
      - {name: backend, ports: [{port: 8080}], command: ECHO}
      - {name: frontend}
"""
PROCESS = ("cmdline", "environ")
TOKEN = "var/run/secrets/tokens/istio-token"
ENVOY = (
    "/config_dump?include_eds",
    "/certs",
    "/clusters",
    "/listeners",
    "/memory",
    "/runtime",
    "/server_info",
    "/stats",
    "/init_dump",
)
AGENT = ("/debug/status", "/healthz/ready", "/metrics", "/stats/prometheus")
CONTROL_PLANE = (
    "/debug/config_dump?proxyID=backend.default",
    "/debug/config_dump?proxyID=frontend.default",
    "/debug/configz",
    "/debug/registryz",
    "/debug/syncz",
    "/metrics",
    "/version",
)


def say_more(child: Child, *arguments: str, **environment: str) -> None:
    """Have a process killed, and started again with these arguments besides."""
    spec = child.spec
    child.spec = replace(
        spec,
        arguments=(*spec.arguments, *arguments),
        environment={**spec.environment, **environment},
    )
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)


async def at_debug_level(mesh: RunningMesh, certificates: Path) -> None:
    """Start all of the mesh again, at debug level, with keys written where we can read them."""
    say_more(mesh.control_plane, "--log-level", "debug")
    for each in mesh.workloads:
        say_more(
            each.agent,
            *("--log_output_level", "all:debug", "--proxyLogLevel", "trace"),
            *("--log_caller", "all", "--log_stacktrace_level", "default:debug"),
            *(("--log_as_json",) if each.instance.name == "frontend" else ()),
            OUTPUT_CERTS=str(certificates / each.instance.name),
        )
    children = [mesh.control_plane, *(each.agent for each in mesh.workloads)]
    await until(
        lambda: all(each.restarts == 1 and each.state is ChildState.RUNNING for each in children),
        what="all to run at debug level",
        seen=lambda: [(each.spec.name, each.state, each.restarts) for each in children],
    )
    await until(
        lambda: all(
            each.not_ready is None and (certificates / each.instance.name / "key.pem").exists()
            for each in mesh.workloads
        ),
        what="all to be ready again",
    )


def processes_of(mesh: RunningMesh) -> Iterator[int]:
    """The mesh's processes, children of children too."""
    waiting = [child.pid for child in mesh.children if child.pid is not None]
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting.extend(children_of(pid))


async def answer(host: str, port: int, path: str) -> bytes:
    status, body = await send(Target(host=host, port=port, url=path))
    assert status == 200, (port, path, status, body)
    return body


async def outputs_of(mesh: RunningMesh) -> dict[str, bytes]:
    """All that the mesh tells of itself, by where."""
    found = {str(log): log.read_bytes() for log in mesh.state.logs.iterdir()}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found[f"cmdline of {process.name}"] = (process / "cmdline").read_bytes()
    for pid in processes_of(mesh):
        with suppress(OSError):
            found[f"environ of {pid}"] = Path(f"/proc/{pid}/environ").read_bytes()
    for each in mesh.workloads:
        name, host = each.instance.name, each.instance.addresses.inbound
        for path in ENVOY:
            found[f"{name} Envoy {path}"] = await answer(host, 15000, path)
        for path in AGENT:
            found[f"{name} agent {path}"] = await answer(host, 15020, path)
        found[f"mesh-agent status of {name}"] = await command(
            "mesh_agent_cli", "status", "--json", "--address", host
        )
    control_plane = mesh.plan.block.control_plane
    for path in CONTROL_PLANE:
        found[f"control plane {path}"] = await answer(control_plane, 15014, path)
    return found


async def command(*arguments: str) -> bytes:
    """All that a command says."""
    status, output, errors = await run_command(
        *arguments, environment=os.environ, directory=Path.cwd()
    )
    assert status in {0, 1}, (arguments, errors)  # 1: the token just tried was refused
    return (output + errors).encode()


async def through_the_command(mesh: RunningMesh, directory: Path) -> AsyncIterator[bytes]:
    """What the `certclient` command says and shows when it keeps a workload's certificate."""
    frontend, secrets = mesh.workload("frontend").instance, mesh.state.workload("frontend")
    for how in ((), ("--json",)):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "certclient", "watch", "--log-level", "debug", *how),
            *("--ca", mesh.plan.discovery_address, "--ca-root", mesh.state.ca / "root-cert.pem"),
            *("--server-name", "istiod.istio-system.svc", "--token", secrets / TOKEN),
            *("--spiffe-id", frontend.spiffe_id, "--lifetime", "10s", "--output", directory),
            *("--on-renew", "cat /proc/self/environ"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        texts: list[bytes] = []
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            async with asyncio.timeout(PATIENCE_S):
                texts.append(await process.stdout.readline())
                texts.append(await process.stderr.readuntil(b"CERTCLIENT_SERIAL="))
            texts += [Path(f"/proc/{process.pid}/{name}").read_bytes() for name in PROCESS]
            assert core_limit(process.pid)[0] == "0"
        finally:
            process.terminate()
            texts += await process.communicate()
        yield b"\n".join(texts)


async def test_no_key_and_no_token_is_in_any_output(
    tmp_path: Path, record: Callable[[str, object], None]
) -> None:
    certificates = tmp_path / "certificates"
    for name in ("backend", "frontend", "command"):
        (certificates / name).mkdir(parents=True)
    # The last certificate outlives all that follows the refusal of the token for the next one.
    environ = renewing_early()
    async with mesh_of(MESH, tmp_path, on_exit=OnExit.RESTART, environ=environ) as mesh:
        await at_debug_level(mesh, certificates)
        backend, frontend = mesh.workload("backend"), mesh.workload("frontend")
        secrets = {each.name: each for each in known_secrets(mesh, certificates)}
        said: list[bytes] = []
        async for text in through_the_command(mesh, certificates / "command"):
            said.append(text)
            for each in secrets_on_disk(certificates / "command"):
                secrets[f"{each.name}, certclient {len(said)}"] = each
        # A token that is refused is spoken of more than one that is good.
        refused = TokenIssuer(tmp_path / "foreign", "mesh-local").issue("default", "frontend")
        (mesh.state.workload("frontend") / TOKEN).write_text(refused)
        secrets["refused"] = secret_token("a refused token", refused)
        log, before = mesh.control_plane.spec.log, issued_to(mesh, backend)
        target = through(frontend)
        async with constant_load(target, rate_per_s=20, workers=2) as load:
            await until(lambda: issued_to(mesh, backend) != before, what="a rotation")
            await until(lambda: "caller not authenticated" in log.read_text(), what="a refusal")
            await load.until_answered(10)
        for each in known_secrets(mesh, certificates):
            secrets[f"{each.name} after the rotation"] = each
        found = await outputs_of(mesh)
        found |= {f"certclient {number}": text for number, text in enumerate(said)}
        assert any(b"certificate renewed" in text for text in said)

        for name in ("control-plane.log", "backend.agent.log"):
            assert b"\tdebug\t" in found[str(mesh.state.logs / name)], f"{name} has no debug lines"
        frontends = found[str(mesh.state.logs / "frontend.agent.log")].splitlines()
        assert any(json.loads(line)["level"] == "debug" for line in frontends if line[:1] == b"{")
        for secret in secrets.values():
            assert [place for place, text in found.items() if secret.is_in(text)] == [], secret.name
        assert list(misplaced(tmp_path, list(secrets.values()))) == []
        for pid in (mesh.control_plane.pid, backend.agent.pid, *envoys(mesh)):
            assert core_limit(pid) == ("0", "0"), f"process {pid} may leave a core file"
        record("secrets", len(secrets))
        record("places searched", len(found))
        record("bytes searched", sum(map(len, found.values())))


def known_secrets(mesh: RunningMesh, certificates: Path) -> Iterator[Secret]:
    yield from secrets_on_disk(mesh.state.path)
    yield from secrets_on_disk(certificates)


def through(workload: RunningWorkload) -> Target:
    outbound = workload.instance.addresses.outbound
    return Target(host=outbound, port=15002, url="http://backend:8080/", authority="backend")


def envoys(mesh: RunningMesh) -> list[int]:
    return [
        each.status.envoy_pid
        for each in mesh.workloads
        if each.status is not None and each.status.envoy_pid is not None
    ]


def misplaced(folder: Path, secrets: list[Secret]) -> Iterator[Path]:
    """Files with a secret in them that others than their owner may read."""
    for file in folder.rglob("*"):
        if file.is_file() and stat.S_IMODE(file.stat().st_mode) & 0o077:
            content = file.read_bytes()
            if any(secret.is_in(content) for secret in secrets):
                yield file


def core_limit(pid: int | None) -> tuple[str, str]:
    """The size that a process's core file may have: soft and hard limit."""
    for line in Path(f"/proc/{pid}/limits").read_text().splitlines():
        if line.startswith("Max core file size"):
            soft, hard = line.split()[4:6]
            return soft, hard
    raise AssertionError(f"process {pid} has no such limit")


def test_the_search_finds_a_planted_secret(tmp_path: Path) -> None:
    """A search that finds nothing is worth something only if it would find."""
    issuer = TokenIssuer(tmp_path, "mesh-local")
    token = issuer.issue("default", "frontend")
    mesh_ca.load_or_create_authority(tmp_path / "ca", trust_domain="cluster.local")
    for file in (tmp_path / "token-key.pem", tmp_path / "ca" / "ca-key.pem"):
        pem = file.read_bytes()
        key, loaded = secret_key("key", pem), load_pem_private_key(pem, None)
        der = loaded.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        shifts = (b"", b".", b"..")
        encoded = [base64.b64encode(before + raw) for before in shifts for raw in (pem, der)]
        written = (pem, der, repr(pem).encode(), repr(der).encode(), der.hex().encode(), *encoded)
        for text in written:
            assert key.is_in(b"before" + text + b"after"), text
        public = loaded.public_key()
        for encoding in (Encoding.PEM, Encoding.DER):
            assert not key.is_in(public.public_bytes(encoding, PublicFormat.SubjectPublicKeyInfo))
    assert secret_token("token", token).is_in(f"authorization: Bearer {token}".encode())
    assert not secret_token("token", token).is_in(issuer.issue("default", "backend").encode())
