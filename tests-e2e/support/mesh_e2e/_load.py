"""Load at a constant rate over raw sockets, with every failure kept.

Each worker has one request under way at most, so the load is bounded however slow the answers.
Half of the workers keep their connection, the others open a new one for each request. A server
may close a kept connection between two requests, which is no failure; anything after the first
byte of a request was written is.
"""

import asyncio
import ssl
import statistics
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Self

import h11

from mesh_testkit import PATIENCE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where requests go, and what they ask for."""

    host: str
    port: int
    url: str = "/"
    authority: str = "localhost"
    tls: ssl.SSLContext | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = PATIENCE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A request that got no good answer; times are the loop's. connected: it had a connection."""

    sent_at: float
    failed_at: float
    what: str
    connected: bool = True


@dataclass(slots=True, kw_only=True)
class LoadReport:
    """What became of all requests so far."""

    answered: int = 0
    connections: int = 0
    latencies_s: list[float] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    bodies: Counter[str] = field(default_factory=Counter)
    """How often each `served-by` answered."""

    def summary(self) -> str:
        """One line of figures."""
        if not self.latencies_s:
            return f"no answer, {len(self.failures)} failures"
        ordered = sorted(self.latencies_s)
        p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
        return (
            f"{self.answered} answers over {self.connections} connections, "
            f"{len(self.failures)} failures, median {statistics.median(ordered) * 1000:.1f} ms, "
            f"p99 {p99 * 1000:.1f} ms, longest {ordered[-1] * 1000:.0f} ms"
        )


class Unanswered(Exception):
    """A request without a whole answer."""


class _Connection:
    """One HTTP/1.1 connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(our_role=h11.CLIENT)

    @classmethod
    async def open(cls, target: Target) -> Self:
        return cls(
            *await asyncio.open_connection(
                target.host,
                target.port,
                ssl=target.tls,
                server_hostname="" if target.tls is not None else None,
            )
        )

    @property
    def usable(self) -> bool:
        return self._http.our_state is h11.IDLE and not self._reader.at_eof()

    async def ask(self, target: Target) -> tuple[int, bytes]:
        headers = [("host", target.authority), *target.headers.items()]
        request = h11.Request(method="GET", target=target.url, headers=headers)
        self._writer.write((self._http.send(request) or b"") + self._end())
        status, body = 0, bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                data = await self._reader.read(65536)
                if not data:
                    raise Unanswered("closed in the middle" if status else "closed unanswered")
                self._http.receive_data(data)
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
                    self._http.start_next_cycle()
                return status, bytes(body)

    def _end(self) -> bytes:
        return self._http.send(h11.EndOfMessage()) or b""

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError, ssl.SSLError):
            await self._writer.wait_closed()


async def send(target: Target) -> tuple[int, bytes]:
    """Send one request over its own connection; raises OSError or `Unanswered`."""
    async with asyncio.timeout(target.timeout_s):
        connection = await _Connection.open(target)
        try:
            return await connection.ask(target)
        finally:
            await connection.close()


class Load:
    """Load under way."""

    def __init__(self, target: Target, *, interval_s: float) -> None:
        self.target = target
        self.report = LoadReport()
        self._interval_s = interval_s
        self._stopping = False
        self._arrived = asyncio.Event()
        self._may_send = asyncio.Event()
        self._may_send.set()

    async def until_answered(self, count: int) -> None:
        """Wait until this many more requests were answered."""
        wanted = self.report.answered + count
        while self.report.answered < wanted:
            self._arrived.clear()
            await self._arrived.wait()

    async def until_served_by(self, workload: str) -> float:
        """Wait for an answer of this workload; returns the loop's time of it."""
        before = self.report.bodies[workload]
        while self.report.bodies[workload] == before:
            self._arrived.clear()
            await self._arrived.wait()
        return asyncio.get_running_loop().time()

    def pause(self) -> None:
        """Send nothing more until `resume`; requests under way are finished."""
        self._may_send.clear()

    def resume(self) -> None:
        """Send again."""
        self._may_send.set()

    def stop(self) -> None:
        self._stopping = True
        self._may_send.set()

    async def work(self, *, offset_s: float, keep: bool) -> None:
        """Send requests at this worker's times until stopped; a request under way is finished."""
        loop = asyncio.get_running_loop()
        due = loop.time() + offset_s
        connection: _Connection | None = None
        try:
            while not self._stopping:
                await asyncio.sleep(max(0.0, due - loop.time()))
                if not self._may_send.is_set():
                    await self._may_send.wait()
                    continue
                # A request that took longer than the interval shifts those after it.
                due = max(due + self._interval_s, loop.time())
                if connection is not None and not (keep and connection.usable):
                    await connection.close()
                    connection = None
                connection = await self._request(connection)
        finally:
            if connection is not None:
                await connection.close()

    async def _request(self, connection: _Connection | None) -> _Connection | None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            async with asyncio.timeout(self.target.timeout_s):
                if connection is None:
                    connection = await _Connection.open(self.target)
                    self.report.connections += 1
                status, body = await connection.ask(self.target)
        except (OSError, Unanswered, TimeoutError, h11.ProtocolError) as error:
            self._failed(
                started, f"{type(error).__name__}: {error}", connected=connection is not None
            )
            if connection is not None:
                await connection.close()
            return None
        if status != 200:
            self._failed(started, f"status {status}: {body[:200]!r}")
            return connection
        self.report.answered += 1
        self.report.latencies_s.append(loop.time() - started)
        self.report.bodies[_served_by(body)] += 1
        self._arrived.set()
        return connection

    def _failed(self, started: float, what: str, *, connected: bool = True) -> None:
        now = asyncio.get_running_loop().time()
        failure = Failure(sent_at=started, failed_at=now, what=what, connected=connected)
        self.report.failures.append(failure)
        self._arrived.set()


def _served_by(body: bytes) -> str:
    _, _, rest = body.partition(b'"served-by": "')
    return rest.partition(b'"')[0].decode()


@asynccontextmanager
async def constant_load(
    target: Target, *, rate_per_s: float = 100, workers: int = 10
) -> AsyncIterator[Load]:
    """Send requests beside the block; leaving it waits for those under way."""
    load = Load(target, interval_s=workers / rate_per_s)
    async with asyncio.TaskGroup() as group:
        for number in range(workers):
            group.create_task(
                load.work(offset_s=number / rate_per_s, keep=number % 2 == 0),
                name=f"load {number}",
            )
        try:
            yield load
        finally:
            load.stop()
