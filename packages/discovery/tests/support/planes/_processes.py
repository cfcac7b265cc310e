"""Child processes: any, and a control plane."""

import asyncio
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from planes._waiting import DEADLINE_S


@dataclass
class Process:
    """A child process whose output is gathered."""

    process: asyncio.subprocess.Process
    reader: asyncio.Task[None]
    output: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.output)

    async def stop(self) -> int:
        """Stop as users do, and return the exit code."""
        if self.process.returncode is None:
            self.process.terminate()
        try:
            async with asyncio.timeout(DEADLINE_S):
                await self.process.wait()
        finally:
            if self.process.returncode is None:
                self.process.kill()
            code = await self.process.wait()
            await self.reader
        return code

    async def end(self, name: str) -> None:
        """Stop, and show with a failed test what the process said."""
        try:
            await self.stop()
        finally:
            sys.stdout.write(f"--- output of {name}:\n{self.text}")


async def start(
    *command: str, cwd: Path, env: dict[str, str] | None = None, stdin: int | None = None
) -> Process:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env=env,
        stdin=stdin,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output: list[str] = []

    async def read() -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            output.append(line.decode(errors="replace"))

    return Process(process, asyncio.create_task(read(), name="output"), output)


async def run_command(cwd: Path, *arguments: str, **env: str) -> tuple[int, str]:
    """Run mesh-discovery until it ends; return its exit code and all of its output."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mesh_discovery", *arguments),
        cwd=cwd,
        env=env,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(60):
        output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


@dataclass
class Plane:
    """A control plane process and where it listens."""

    process: Process
    http: str
    grpc: str
    secure_grpc: str
    monitoring: str
    ca_dir: Path

    async def get(self, path: str) -> Any:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://{self.monitoring}{path}") as response,
        ):
            if response.content_type == "application/json":
                return await response.json()
            return await response.text()
