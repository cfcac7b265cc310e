"""The commands of a document, typed into shells as its reader would."""

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from mesh_testkit import PATIENCE_S

_BLOCK = re.compile(r"^```(\S*) ?(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"\d+")
_COUNTED = re.compile(r" *\d+ ")


class Block(NamedTuple):
    """A block of a document: `sh` for a shell, or `text` that the one before says at its end."""

    language: str
    shell: str
    """Which of the reader's machines or terminals; empty for the one that is at hand."""
    text: str

    def commands(self) -> Iterator[str]:
        """Yield the commands one by one, those of several lines whole."""
        typed = ""
        for line in self.text.splitlines(keepends=True):
            typed += line
            syntax = ["bash", "-n"]
            reading = subprocess.run(syntax, input=typed.encode(), capture_output=True, check=False)
            if not reading.stderr and not typed.endswith("\\\n"):
                yield typed
                typed = ""
        assert not typed, f"a command without an end: {typed}"


def blocks_of(document: Path) -> list[Block]:
    return [Block(*match.groups()) for match in _BLOCK.finditer(document.read_text())]


def differences(said: str, written: str) -> list[str]:
    """Return what was said and isn't written, and the other way round; numbers are any numbers.

    Of lines that begin with a count, as those of `uniq -c`, some may be missing: they are drawn.
    """
    there, expected = map(_lines, (said, written))
    counted = {each for each in expected if _COUNTED.match(each)}
    missing = [each for each in expected - counted if each not in there]
    if counted and not counted & there:
        missing.append(next(iter(counted)))
    return [
        *(f"not written: {each}" for each in there - expected),
        *(f"not said: {each}" for each in missing),
    ]


def _lines(text: str) -> set[str]:
    """Return lines with each number as 1, and without the width of a count's column."""
    return {_NUMBER.sub("1", re.sub(r"^ +", " ", line)).rstrip() for line in text.splitlines()}


class Shell:
    """A shell, which remembers its directory, its functions and its background jobs."""

    def __init__(self, process: asyncio.subprocess.Process, scripts: Path) -> None:
        """scripts: a prefix of the names of files that hold what is typed."""
        self._process = process
        self._scripts = scripts
        self._count = 0

    async def type(self, text: str) -> str:
        """Type commands; returns their output. Any that fails is an error."""
        end = await self._begin(text, options="set -e; ")
        return (await self._read(text, lambda line: line.startswith(end))).removesuffix("\n")

    async def type_lasting(self, text: str, until: str) -> str:
        """Type a command that goes on, and return its output up to a line that holds a text."""
        end = await self._begin(text)
        said: list[str] = []

        def is_at_work(line: str) -> bool:
            said.append(line)
            assert not line.startswith(end), f"{text} ended and said:\n{''.join(said)}"
            return until in line

        return await self._read(text, is_at_work)

    async def interrupt(self) -> str:
        """Press Ctrl-C, and return what the command says until it has ended."""
        shell_pid = next(each for each in _line_of_children(self._process.pid) if _is_bash(each))
        for child in _children(shell_pid):
            os.kill(child, signal.SIGINT)
        return await self._read("Ctrl-C", lambda line: line.startswith(self._end()))

    def _end(self) -> str:
        return f"--- block {self._count} "

    async def _begin(self, text: str, *, options: str = "") -> str:
        stdin = self._process.stdin
        assert stdin is not None
        self._count += 1
        # Each in the shell itself, so that `cd` and `&` have their effect for the next.
        script = self._scripts.with_name(f"{self._scripts.name}-{self._count}.sh")
        script.write_text(text)
        # A line of its own for the end, also behind output without one.
        stdin.write(f"{options}. {script}; set +e; echo; echo '{self._end()}'$?\n".encode())
        await stdin.drain()
        return self._end()

    async def _read(self, text: str, is_last: Callable[[str], bool]) -> str:
        """Return the lines before one of which it holds."""
        stdout = self._process.stdout
        assert stdout is not None
        said: list[str] = []
        async with asyncio.timeout(PATIENCE_S):
            while line := (await stdout.readline()).decode():
                if is_last(line):
                    return "".join(said)
                said.append(line)
        name = self._scripts.name
        raise AssertionError(f"{name} failed in:\n{text}\nand said:\n{''.join(said)}")


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _line_of_children(pid: int) -> Iterator[int]:
    """Yield a process, its first child, that one's first child, and so on."""
    yield pid
    for child in _children(pid)[:1]:
        yield from _line_of_children(child)


def _is_bash(pid: int) -> bool:
    return Path(f"/proc/{pid}/comm").read_text() == "bash\n"


@asynccontextmanager
async def shell(
    scripts: Path, *, cwd: Path, environment: Mapping[str, str], within: Sequence[str] = ()
) -> AsyncIterator[Shell]:
    """A shell; within: the words of a command that runs it, as in another namespace."""
    process = await asyncio.create_subprocess_exec(
        *(*within, "bash"),
        cwd=cwd,
        env=environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield Shell(process, scripts)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)  # what still goes on in the terminal
        if process.returncode is None:
            # With it ends what it has left, if it is process 1 of a namespace.
            process.kill()
        await process.communicate()
