"""The traffic's process, and what it has told so far."""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from mesh_chaos._books import Failed, Lane
from mesh_testkit import PATIENCE_S, until

_PROCESS = Path(__file__).with_name("_traffic_process.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Requests at a constant rate: HTTP, or HTTP in what the mesh takes for TCP.

    sender: the workload whose program it is; empty for someone outside.
    """

    name: str
    sender: str = ""
    host: str
    port: int
    url: str = "/"
    authority: str = "chaos"
    rate: float = 20
    workers: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """Names that are asked at a constant rate. ask: RANDOM in it is another word each time."""

    name: str
    sender: str = ""
    host: str
    port: int
    ask: str
    expect: str
    rate: float = 5
    workers: int = 20


@dataclass(slots=True, kw_only=True)
class Traffic:
    """What became of all requests so far."""

    lanes: tuple[Lane, ...]
    answered: Counter[str] = field(default_factory=Counter)
    failures: list[Failed] = field(default_factory=list)
    slowest_s: dict[str, float] = field(default_factory=dict)
    _input: asyncio.StreamWriter | None = None

    def pause(self, sender: str) -> None:
        """A workload goes, and its program with it: it sends nothing more."""
        self._tell(f"pause {sender}\n")

    def resume(self, sender: str) -> None:
        """The workload is back."""
        self._tell(f"resume {sender}\n")

    def _tell(self, line: str) -> None:
        assert self._input is not None
        self._input.write(line.encode())

    def note(self, line: str) -> None:
        report = json.loads(line)
        lane = report["lane"]
        if "what" in report:
            self.failures.append(Failed(**report))
        else:
            self.answered[lane] += report["answered"]
            self.slowest_s[lane] = max(self.slowest_s.get(lane, 0.0), report["slowest_s"])


@asynccontextmanager
async def traffic(
    what: Sequence[tuple[Requests | Questions, Lane]], log: Path
) -> AsyncIterator[Traffic]:
    """Send for as long as the block runs; all lanes are answered when it begins."""
    seen = Traffic(lanes=tuple(lane for _, lane in what))
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(_PROCESS), json.dumps([asdict(each) for each, _ in what])),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
        )
    assert process.stdin is not None
    seen._input = process.stdin
    reading = asyncio.create_task(_read(process, seen), name="traffic")
    try:
        await until(
            lambda: all(seen.answered[lane.name] for lane in seen.lanes),
            what="an answer on every lane",
            seen=lambda: (seen.answered, seen.failures[-3:], process.returncode),
        )
        yield seen
        process.stdin.close()
        async with asyncio.timeout(PATIENCE_S):
            await reading
            assert await process.wait() == 0, "the traffic's process has failed, see its log"
    finally:
        reading.cancel()
        await asyncio.wait([reading])
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
        await process.wait()


async def _read(process: asyncio.subprocess.Process, seen: Traffic) -> None:
    assert process.stdout is not None
    async for line in process.stdout:
        seen.note(line.decode())
