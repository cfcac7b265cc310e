"""The examples' pages, followed to the letter: each command as it stands, each answer."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from mesh_e2e import Block, Shell, blocks_of, differences, last_words, shell

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
LASTING = {"mesh-local up": "all workloads are ready", "tail -f ": '"message": "hello, '}
"""What goes on until Ctrl-C, and what it says when its reader goes to another terminal."""

pytestmark = pytest.mark.slow
Record = Callable[[str, object], None]


def lasting(command: str) -> str | None:
    """Return what a command says once it is at work if it goes on, None if it ends."""
    found = (until for beginning, until in LASTING.items() if command.startswith(beginning))
    return None if "--once" in command else next(found, None)


class Reader:
    """Somebody in the folder of an example, with a home that is empty and several terminals."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._terminals: dict[str, Shell] = {}
        self._busy: set[str] = set()
        self.transcript: list[str] = []

    async def follow(self, block: Block) -> str:
        """Type the commands of a block into its terminal; returns what they say."""
        terminal = await self._terminal(block.shell)
        if block.shell in self._busy:
            self._busy.discard(block.shell)
            self.transcript += ["^C\n", await terminal.interrupt()]
        said = ""
        for command in block.commands():
            began = time.monotonic()
            if (until := lasting(command)) is not None:
                self._busy.add(block.shell)
                answer = await terminal.type_lasting(command, until)
            else:
                answer = await terminal.type(command)
            said += answer
            self.transcript.append(f"{time.monotonic() - began:6.1f} s $ {command}{answer}")
        return said

    async def stop(self) -> None:
        """Press Ctrl-C wherever something goes on."""
        for name in self._busy:
            await self._terminals[name].interrupt()

    async def _terminal(self, name: str) -> Shell:
        if name not in self._terminals:
            home = self._folder.with_name("home")
            environment = {
                "HOME": str(home),
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "LANG": "C.UTF-8",
            }
            scripts = self._folder.with_name(f"typed-{name}")
            opened = shell(scripts, cwd=self._folder, environment=environment)
            self._terminals[name] = await self._stack.enter_async_context(opened)
        return self._terminals[name]


@pytest.mark.parametrize("example", sorted(each.name for each in EXAMPLES.iterdir()))
async def test_each_command_of_an_example_says_what_is_written(
    example: str, tmp_path: Path, record: Record
) -> None:
    if example == "proxyless" and shutil.which("npm") is None:
        pytest.skip("npm is not on this machine, and half of the programs are in Node")
    began = time.monotonic()
    said = ""
    async with AsyncExitStack() as stack:
        # pytest's own has a long name, and the socket of a proxyless workload bears it whole.
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="reader-")))
        folder = place / example
        shutil.copytree(EXAMPLES / example, folder, ignore=shutil.ignore_patterns(".mesh-local"))
        (place / "home").mkdir()
        reader = Reader(folder, stack)
        try:
            for block in blocks_of(folder / "README.md"):
                if block.language == "sh":
                    said = await reader.follow(block)
                elif block.language == "text":
                    assert not differences(said, block.text), said
            await reader.stop()
        except BaseException as error:
            error.add_note("".join(reader.transcript))
            error.add_note(last_words(folder.rglob("*.log")))
            raise
    record(f"{example}, s", round(time.monotonic() - began, 1))
    (tmp_path / "transcript.txt").write_text("".join(reader.transcript))
