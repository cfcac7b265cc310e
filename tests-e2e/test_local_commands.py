"""The commands about a mesh that runs in another terminal."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mesh_e2e import ECHO, alive, children_of, run_command
from mesh_testkit import until

pytestmark = pytest.mark.slow

MESH = """\
mesh: {{name: shop}}
workloads:
  - {{name: backend, ports: [{{port: 8080}}], command: [{python}, {echo}]}}
  - {{name: caller, command: [sh, -c, 'echo I call; exec sleep 1000'], env: {{COLOUR: green}}}}
configDir: rules
"""
MISTAKEN_RULE = """\
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: mistaken}
spec: {hosts: backend}
"""
CALL = "import urllib.request as u; print(u.urlopen('http://backend:8080/').read().decode())"

Ask = Callable[..., Awaitable[tuple[int, str, str]]]


@asynccontextmanager
async def running(directory: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, Ask]]:
    """Run `mesh-local up` in a directory, and give a way to ask it from another terminal."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mesh_local", "up"),
        cwd=directory,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )

    async def ask(*arguments: str) -> tuple[int, str, str]:
        return await run_command(
            "mesh_local", *arguments, environment=os.environ, directory=directory
        )

    try:
        yield process, ask
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def until_status(ask: Ask, wanted: int) -> dict[str, object]:
    """Ask for the status until it ends with this exit status, and return what it says."""
    said: list[tuple[int, str, str]] = []

    async def is_so() -> bool:
        said[:] = [await ask("status", "-o", "json")]
        return said[0][0] == wanted and bool(said[0][1])

    await until(is_so, what=f"status ends with {wanted}", seen=lambda: said)
    found: dict[str, object] = json.loads(said[0][1])
    return found


async def test_a_mesh_is_looked_at_used_and_stopped_from_another_terminal(tmp_path: Path) -> None:
    (tmp_path / "mesh.yaml").write_text(MESH.format(python=sys.executable, echo=ECHO))
    (tmp_path / "rules").mkdir()
    async with running(tmp_path) as (up, ask):
        await check_status(ask, await until_status(ask, 0))
        await check_mistake(ask, tmp_path / "rules" / "mistaken.yaml")
        await check_suspended_agent(ask, up.pid)
        await check_suspended_control_plane(ask, up.pid)
        await check_logs(ask)
        await check_request(ask)
        await check_exec(ask)

        processes = children_of(up.pid)
        assert processes
        status, output, errors = await ask("down")
        state = tmp_path / ".mesh-local" / "mesh"
        assert (status, output, errors) == (0, f"the mesh of {state} has stopped\n", "")
        assert not any(map(alive, processes))
        said, _ = await up.communicate()
        assert up.returncode == 0, said.decode()
        assert b"stopping in order (mesh-local down)" in said
        status, _, errors = await ask("status")
        assert (status, errors) == (
            1,
            f"mesh-local: no mesh runs with the state folder {state}\n",
        )
        assert await ask("logs", "caller") == (0, "I call\n", "")


async def check_status(ask: Ask, found: dict[str, object]) -> None:
    workloads = found["workloads"]
    assert isinstance(workloads, list)
    assert [each["state"] for each in workloads] == ["ready", "ready"]
    status, output, errors = await ask("status")
    assert (status, errors) == (0, "")
    first, *lines = output.splitlines()
    assert first.startswith("shop  2 of 2 ready")
    for each in workloads:
        (line,) = [line for line in lines if line.startswith(f"{each['name']}.default ")]
        assert each["serial"][-12:] in line
    assert f"http://127.{workloads[0]['urls'][0].split('.', 1)[1]}" in output


async def check_mistake(ask: Ask, file: Path) -> None:
    file.write_text(MISTAKEN_RULE)
    await until_status(ask, 1)
    status, output, _ = await ask("status")
    assert status == 1
    assert "1 problem" in output.splitlines()[0]
    assert "mistaken.yaml:4: spec.hosts" in output
    status, output, errors = await ask("wait")
    assert (status, output) == (1, "")
    assert f"rules/{file.name}:4: spec.hosts" in errors
    file.unlink()
    assert await ask("wait") == (0, "2 proxies have all that is saved\n", "")
    await until_status(ask, 0)


async def check_suspended_agent(ask: Ask, mesh_local: int) -> None:
    """A workload that was ready and no longer is counts as a problem, not as starting."""
    (agent,) = (
        each
        for each in children_of(mesh_local)
        if Path(f"/proc/{each}/cwd").readlink().match("workloads/backend")
    )
    os.kill(agent, signal.SIGSTOP)
    try:
        found = await until_status(ask, 1)
        status, output, _ = await ask("status")
    finally:
        os.kill(agent, signal.SIGCONT)
    workloads = found["workloads"]
    assert isinstance(workloads, list)
    assert [each["state"] for each in workloads] == ["not ready", "ready"]
    first, problem, *_ = output.splitlines()
    assert (status, first.startswith("shop  1 of 2 ready  1 problem")) == (1, True)
    assert problem == "backend: its agent does not answer (see backend.agent.log)"
    await until_status(ask, 0)


async def check_suspended_control_plane(ask: Ask, mesh_local: int) -> None:
    """It alone is the problem: the workloads answer."""
    (control_plane,) = (
        each
        for each in children_of(mesh_local)
        if b"mesh_discovery" in Path(f"/proc/{each}/cmdline").read_bytes()
    )
    os.kill(control_plane, signal.SIGSTOP)
    try:
        found = await until_status(ask, 1)
        _, output, _ = await ask("status")
    finally:
        os.kill(control_plane, signal.SIGCONT)
    sentence = f"no answer from the control plane {found['control_plane']}"
    assert found["problems"] == [sentence]
    first, problem, after, *_ = output.splitlines()
    assert first.startswith("shop  2 of 2 ready  1 problem")
    assert (problem, after) == (sentence, "")
    await until_status(ask, 0)


async def check_logs(ask: Ask) -> None:
    assert await ask("logs", "caller") == (0, "I call\n", "")
    status, output, _ = await ask("logs", "caller.agent", "control-plane")
    assert status == 0
    shown = {line.partition(" | ")[0] for line in output.splitlines()}
    assert shown == {"caller.agent", "control-plane"}


async def check_request(ask: Ask) -> None:
    status, output, errors = await ask("request", "caller", "http://backend/", "-H", "x-a: b")
    assert status == 0, errors
    headers = json.loads(output)["headers"]
    assert headers["x-a"] == "b"
    assert "spiffe://cluster.local/ns/default/sa/caller" in headers["x-forwarded-client-cert"]
    status, output, _ = await ask("request", "caller", "http://backend/", "-d", "x", "-o", "json")
    answer = json.loads(output)
    assert (status, answer["status"]) == (0, 200)
    assert json.loads(answer["body"])["served-by"] == "backend"
    # Nothing listens where Envoy would pass this on.
    status, _, errors = await ask("request", "caller", "http://127.0.0.1:1/")
    assert status == 1
    assert errors.startswith("50")
    status, _, errors = await ask("request", "caller", "http://backend:81/")
    assert (status, errors.splitlines()[1:]) == (
        1,
        ["mesh-local: backend.default has the port 8080"],
    )
    status, _, errors = await ask("request", "caller", "http://backnd/")
    sentence = 'the mesh file has no service "backnd" in namespace default'
    assert status == 1
    assert errors.endswith(f"mesh-local: {sentence}; did you mean backend.default?\n"), errors
    status, _, errors = await ask("request", "callr", "http://backend/")
    assert (status, errors) == (
        1,
        'mesh-local: there is no workload "callr"; did you mean "caller"?\n',
    )


async def check_exec(ask: Ask) -> None:
    shell = 'echo "$MESH_SPIFFE_ID $COLOUR"; exit 3'
    status, output, errors = await ask("exec", "caller", "--", "sh", "-c", shell)
    assert (status, output, errors) == (
        3,
        "spiffe://cluster.local/ns/default/sa/caller green\n",
        "",
    )
    status, output, errors = await ask("exec", "caller", "--", sys.executable, "-c", CALL)
    assert status == 0, errors
    assert "sa/caller" in json.loads(output)["headers"]["x-forwarded-client-cert"]
    status, _, errors = await ask("exec", "caller", "no-such-program")
    assert (status, len(errors.splitlines())) == (2, 1)
    assert 'there is no program "no-such-program"' in errors
