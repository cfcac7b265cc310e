"""The guide to a mesh of two machines, followed to the letter: two network namespaces and a cable.

Each machine is a shell with a home directory of its own, which is given the guide's commands in
the guide's order. In place of SSH there is an `scp` that copies from home to home.
"""

import asyncio
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from mesh_e2e import last_words
from mesh_testkit import PATIENCE_S

GUIDE = Path(__file__).parents[1] / "docs" / "guides" / "two-machines.md"
ADDRESSES = {"control": "10.77.0.1", "worker": "10.77.0.2"}
_BLOCK = re.compile(r"^```(\S*) ?(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SCP = """\
#!/bin/sh
set -eu
[ $# = 2 ]
machine=${2%%:*} path=${2#*:}
exec cp "$1" "$HOMES/$machine/$path"
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.getuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(shutil.which("ip") is None, reason="network namespaces need iproute2"),
]


class Block(NamedTuple):
    """A block of the guide: `sh` for a machine, or `text` that the one before says at its end."""

    language: str
    machine: str
    text: str


def blocks() -> list[Block]:
    return [Block(*match.groups()) for match in _BLOCK.finditer(GUIDE.read_text())]


async def run(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    _, errors = await process.communicate()
    assert process.returncode == 0, (command, errors.decode())


class Machine:
    """A shell on a machine, which remembers its directory and its background jobs."""

    def __init__(self, process: asyncio.subprocess.Process, home: Path) -> None:
        self.home = home
        self._process = process
        self._count = 0

    async def type(self, text: str) -> str:
        """Type commands; returns their output. Any that fails is an error."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        self._count += 1
        end = f"--- block {self._count} "
        # Each in the shell itself, so that `cd` and `&` have their effect for the next.
        script = self.home.parent / f"{self.home.name}-{self._count}.sh"
        script.write_text(text)
        stdin.write(f"set -e; . {script}; set +e; echo '{end}'$?\n".encode())
        await stdin.drain()
        said: list[str] = []
        async with asyncio.timeout(2 * PATIENCE_S):
            while line := (await stdout.readline()).decode():
                if line.startswith(end):
                    return "".join(said)
                said.append(line)
        raise AssertionError(f"{self.home.name} failed in:\n{text}\nand said:\n{''.join(said)}")


@contextmanager
def names() -> Iterator[dict[str, str]]:
    yield {machine: f"mesh-{os.getpid()}-{machine}" for machine in ADDRESSES}


@asynccontextmanager
async def cable() -> AsyncIterator[dict[str, str]]:
    """Two network namespaces, joined; provides their names by machine."""
    with names() as spaces:
        try:
            for space in spaces.values():
                await run("ip", "netns", "add", space)
            ends = {machine: f"{machine}{os.getpid()}"[-15:] for machine in spaces}
            control, worker = ends["control"], ends["worker"]
            await run(
                *("ip", "link", "add", control, "netns", spaces["control"], "type", "veth"),
                *("peer", "name", worker, "netns", spaces["worker"]),
            )
            for machine, space in spaces.items():
                await run(
                    *("ip", "-n", space, "address", "add", f"{ADDRESSES[machine]}/24"),
                    *("dev", ends[machine]),
                )
                for device in ("lo", ends[machine]):
                    await run("ip", "-n", space, "link", "set", device, "up")
            yield spaces
        finally:
            for space in spaces.values():
                if Path("/run/netns", space).exists():
                    await run("ip", "netns", "delete", space)


@asynccontextmanager
async def machine(name: str, space: str, homes: Path) -> AsyncIterator[Machine]:
    home, commands = homes / name, homes / "bin"
    home.mkdir()
    environment = {
        "HOME": str(home),
        "HOMES": str(homes),
        "PATH": f"{commands}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "LANG": "C.UTF-8",
    }
    process = await asyncio.create_subprocess_exec(
        *("ip", "netns", "exec", space),
        # What the shell leaves behind ends with it: it is process 1 of a namespace.
        *("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "bash"),
        cwd=home,
        env=environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield Machine(process, home)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def test_the_guide_has_the_blocks_that_are_followed() -> None:
    assert {(each.language, each.machine) for each in blocks()} == {
        ("sh", "install"),
        ("sh", "control"),
        ("sh", "worker"),
        ("text", ""),
    }


async def test_the_guide_is_right(tmp_path: Path) -> None:
    homes = tmp_path / "homes"
    (homes / "bin").mkdir(parents=True)
    (homes / "bin" / "scp").write_text(_SCP)
    (homes / "bin" / "scp").chmod(0o755)
    said = ""
    try:
        async with (
            cable() as spaces,
            machine("control", spaces["control"], homes) as control,
            machine("worker", spaces["worker"], homes) as worker,
        ):
            machines = {"control": control, "worker": worker}
            for block in blocks():
                if block.language == "text":
                    assert said.endswith(block.text), said
                elif block.machine in machines:  # what is installed here is what is tested
                    said = await machines[block.machine].type(block.text)
    except BaseException as error:
        error.add_note(last_words(homes.rglob("*.log")))
        raise
