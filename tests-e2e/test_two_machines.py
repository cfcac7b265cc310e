"""The guide to a mesh of two machines, followed to the letter: two network namespaces and a cable.

Each machine is a shell with a home directory of its own, which is given the guide's commands in
the guide's order. In place of SSH there is an `scp` that copies from home to home.
"""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from mesh_e2e import Shell, blocks_of, last_words, shell

GUIDE = Path(__file__).parents[1] / "docs" / "guides" / "two-machines.md"
ADDRESSES = {"control": "10.77.0.1", "worker": "10.77.0.2"}
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


async def run(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    _, errors = await process.communicate()
    assert process.returncode == 0, (command, errors.decode())


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


def machine(name: str, space: str, homes: Path) -> AbstractAsyncContextManager[Shell]:
    home, commands = homes / name, homes / "bin"
    home.mkdir()
    environment = {
        "HOME": str(home),
        "HOMES": str(homes),
        "PATH": f"{commands}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "LANG": "C.UTF-8",
    }
    # What the shell leaves behind ends with it: it is process 1 of a namespace.
    own_processes = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    within = ("ip", "netns", "exec", space, *own_processes)
    return shell(homes / name, cwd=home, environment=environment, within=within)


def test_the_guide_has_the_blocks_that_are_followed() -> None:
    assert {(each.language, each.shell) for each in blocks_of(GUIDE)} == {
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
            for block in blocks_of(GUIDE):
                if block.language == "text":
                    assert said.endswith(block.text), said
                elif block.shell in machines:  # what is installed here is what is tested
                    said = await machines[block.shell].type(block.text)
    except BaseException as error:
        error.add_note(last_words(homes.rglob("*.log")))
        raise
