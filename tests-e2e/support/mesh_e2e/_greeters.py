"""gRPC programs without an Envoy: those of examples/proxyless, and how tests call them."""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mesh_local import RunningMesh
from mesh_testkit import PATIENCE_S, until

EXAMPLE = Path(__file__).parents[3] / "examples" / "proxyless"
CALLS = Path(__file__).parents[2] / "apps" / "greeter_calls.py"
_UNREACHABLE = (b"ENOTFOUND", b"EAI_AGAIN", b"ECONN", b"ETIME")


def bootstrap_of(mesh: RunningMesh, workload: str) -> Path:
    """Return the bootstrap file that a workload's agent has written."""
    return mesh.workload(workload).agent.spec.directory / "etc/istio/proxy/grpc-bootstrap.json"


async def greeted(
    mesh: RunningMesh, caller: str, target: str, *, program: tuple[str | Path, ...] = ()
) -> Any:
    """Call once as a workload; return the answer. program: the client, if not Python's."""
    command = program or (sys.executable, EXAMPLE / "client.py")
    arguments = (*command, target, *(() if program else ("--count",)), "1")
    process = await asyncio.create_subprocess_exec(
        *map(str, arguments),
        env=_environment(mesh, caller),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    assert process.returncode == 0, (output, errors[-2000:])
    return json.loads(output)


@dataclass(slots=True, kw_only=True)
class Calls:
    """Calls that go on, and how they ended.

    served_by: how often each server answered over kept connections (a new channel calls whichever
        it is connected to first). callers: the identities that servers saw.
    """

    target: str
    completed: int = 0
    over_new_connections: int = 0
    served_by: dict[str, int] = field(default_factory=dict)
    last_served_by: str = ""
    callers: set[str | None] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)

    def note(self, report: Mapping[str, Any]) -> None:
        self.completed += 1
        self.over_new_connections += report["new"]
        if "error" in report:
            self.failures.append(report["error"])
            return
        answer = report["answer"]
        self.last_served_by = answer["served-by"]
        if not report["new"]:
            self.served_by[self.last_served_by] = self.served_by.get(self.last_served_by, 0) + 1
        self.callers.add(answer["caller"])

    async def until_completed(self, further: int) -> None:
        wanted = self.completed + further
        await until(
            lambda: self.completed >= wanted, what=f"{further} more calls", seen=lambda: self
        )

    async def until_served_by(self, name: str) -> None:
        await until(
            lambda: self.last_served_by == name, what=f"an answer of {name}", seen=lambda: self
        )

    def summary(self) -> str:
        """Return the figures in one line."""
        return (
            f"{self.completed} calls, {self.over_new_connections} of them over new connections, "
            f"{len(self.failures)} failed"
        )


@asynccontextmanager
async def calling(
    mesh: RunningMesh, caller: str, target: str, *, rate_per_s: float = 50
) -> AsyncIterator[Calls]:
    """Call as a workload for as long as the block runs; see apps/greeter_calls.py."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(CALLS), target, str(rate_per_s)),
        env=_environment(mesh, caller),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    calls = Calls(target=target)
    assert process.stdin is not None
    reading = asyncio.create_task(_read(process, calls), name=f"calls of {target}")
    try:
        await until(
            lambda: calls.completed > 0, what="the first call", seen=lambda: process.returncode
        )
        yield calls
        process.stdin.close()
        async with asyncio.timeout(PATIENCE_S):
            await reading
            assert await process.wait() == 0
    finally:
        reading.cancel()
        await asyncio.wait([reading])
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _read(process: asyncio.subprocess.Process, calls: Calls) -> None:
    assert process.stdout is not None
    async for line in process.stdout:
        calls.note(json.loads(line))


def _environment(mesh: RunningMesh, caller: str) -> dict[str, str]:
    return {
        **os.environ,
        "GRPC_XDS_BOOTSTRAP": str(bootstrap_of(mesh, caller)),
        "no_grpc_proxy": "*",
    }


async def node_programs(request: pytest.FixtureRequest, directory: Path) -> Path:
    """Return a directory with the example's programs in Node and what they need, kept for later.

    Skips the test where Node is not there, or npm's registry cannot be reached.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("node and npm are not on this machine")
    cache = getattr(request.config, "cache", None)
    kept = directory if cache is None else cache.mkdir("examples-proxyless")
    for file in (*EXAMPLE.glob("*.mjs"), *EXAMPLE.glob("*.json"), *EXAMPLE.glob("*.proto")):
        shutil.copyfile(file, kept / file.name)
    installed, wanted = kept / "installed.json", (EXAMPLE / "package-lock.json").read_bytes()
    if not installed.exists() or installed.read_bytes() != wanted:
        process = await asyncio.create_subprocess_exec(
            *(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"),
            cwd=kept,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
        if process.returncode:
            text = said.decode(errors="replace")
            assert any(word in said for word in _UNREACHABLE), text
            pytest.skip(f"the npm registry cannot be reached: {text[-300:]}")
        installed.write_bytes(wanted)
    return Path(kept)
