"""Somebody who follows a document: several terminals, and what was typed into each."""

import asyncio
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from mesh_e2e._guides import Block, Shell, shell

LASTING = {
    "mesh-local up": "all workloads are ready",
    "mesh-discovery discovery": "control plane ready",
    "mesh-agent proxy": "envoy ready",
    "python -m mesh_dnsproxy": "listening on",
    "python -m envoy_supervisor run": "envoy is ready",
    "tail -f ": '"message": "hello, ',
}
"""What goes on until Ctrl-C, and what it says when its reader goes to another terminal."""


@asynccontextmanager
async def own_network() -> AsyncIterator[tuple[str, ...]]:
    """Provide the words before a command that run it in a network of its own.

    There each address and port of a document is free. Without root there are no such words, and no
    other mesh may run.
    """
    if os.getuid() != 0 or shutil.which("ip") is None:
        yield ()
        return
    name = f"reader-{os.getpid()}"
    await _run("ip", "netns", "add", name)
    try:
        await _run("ip", "-n", name, "link", "set", "lo", "up")
        yield ("ip", "netns", "exec", name)
    finally:
        await _run("ip", "netns", "delete", name)


async def _run(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(*command)
    assert await process.wait() == 0, command


def lasting(command: str) -> str | None:
    """Return what a command says once it is at work if it goes on, None if it ends."""
    found = (until for beginning, until in LASTING.items() if command.startswith(beginning))
    return None if "--once" in command else next(found, None)


class Reader:
    """Somebody in a folder, with a home that is empty and several terminals."""

    def __init__(
        self,
        folder: Path,
        stack: AsyncExitStack,
        *,
        within: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """within: the words of a command that runs each terminal's shell, as in a namespace; but
        for the terminal `install`, which needs the machine's network.
        """
        self._folder = folder
        self._stack = stack
        self._within = within
        self._variables = variables or {}
        self._terminals: dict[str, Shell] = {}
        self._busy: set[str] = set()
        self.transcript: list[str] = []

    async def follow(self, block: Block, *, without: Sequence[str] = ()) -> str:
        """Type the commands of a block into its terminal; returns what they say.

        without: commands that are passed over.
        """
        terminal = await self._terminal(block.shell)
        if block.shell in self._busy:
            self._busy.discard(block.shell)
            self.transcript += ["^C\n", await terminal.interrupt()]
        said = ""
        for command in block.commands():
            if command.startswith(tuple(without)):
                continue
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
        self._busy.clear()

    async def _terminal(self, name: str) -> Shell:
        if name not in self._terminals:
            home = self._folder.with_name("home")
            home.mkdir(exist_ok=True)
            environment = {
                "HOME": str(home),
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "LANG": "C.UTF-8",
                **self._variables,
            }
            scripts = self._folder.with_name(f"typed-{name}")
            within = () if name == "install" else self._within
            opened = shell(scripts, cwd=self._folder, environment=environment, within=within)
            self._terminals[name] = await self._stack.enter_async_context(opened)
        return self._terminals[name]
