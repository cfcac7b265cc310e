"""A control plane of go-control-plane, built from the Go program beside the tests."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

_SOURCE = Path(__file__).parent.parent / "go_control_plane"


def build_go_control_plane(directory: Path) -> Path:
    """Build the program; Go keeps what it has built. Skips the test if that can't be done here."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("the control plane is written in Go, and there is no `go` on PATH")
    environment = {**os.environ, "GOFLAGS": "-mod=readonly -buildvcs=false", "GOWORK": "off"}
    # The toolchain that is there, and none that Go would download by itself.
    environment["GOTOOLCHAIN"] = "local"

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [go, *arguments],
            cwd=_SOURCE,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    if (found := run("mod", "download")).returncode != 0:
        pytest.skip(f"the modules of go-control-plane can't be had here: {found.stderr.strip()}")
    program = directory / "go_control_plane"
    built = run("build", "-o", str(program), ".")
    assert built.returncode == 0, built.stderr
    return program


class GoControlPlane:
    """A running program; created by `go_control_plane`."""

    def __init__(self, address: str, process: asyncio.subprocess.Process) -> None:
        self.address = address
        self._process = process

    async def set(self, step: str) -> None:
        """Give every client the snapshot of a step."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{step}\n".encode())
        await self._process.stdin.drain()


@asynccontextmanager
async def go_control_plane(program: Path) -> AsyncIterator[GoControlPlane]:
    """Run a program that `build_go_control_plane` built."""
    process = await asyncio.create_subprocess_exec(
        str(program), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        port = (await process.stdout.readline()).decode().strip()
        assert port, "the control plane did not start"
        yield GoControlPlane(f"127.0.0.1:{port}", process)
    finally:
        process.kill()
        await process.communicate()
