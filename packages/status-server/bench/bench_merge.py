"""What merging costs: memory with a page of 30 MB, and time beside fetching that page directly.

Three processes: the one that is measured, an application that has its page ready, and the scraper.
`python packages/status-server/bench/bench_merge.py [MEGABYTES]`
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

import h11  # noqa: F401 - loaded before memory is looked at, as in an agent
import uvloop

from mesh_status_server import MergedMetrics, application_source, gauge, http_server

LINE = b'app_http_requests_total{method="GET",path="/api/v1/things/%07d",code="200"} %d\n'
PIECE = 4096
ROUNDS = 5


def page(megabytes: int) -> bytes:
    wanted = megabytes * 1_000_000
    return b"# TYPE app_http_requests_total counter\n" + b"".join(
        LINE % (number, number) for number in range(wanted // len(LINE % (0, 100_000)))
    )


async def application(megabytes: int) -> None:
    """Serve the page in chunks of 4 KiB, as Go's server does; tell the port."""
    body = page(megabytes)
    pieces = (body[start : start + PIECE] for start in range(0, len(body), PIECE))
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + chunks)
        with suppress(ConnectionError):  # on a busy machine a page may take longer than a scrape
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def merging(port: int) -> None:
    """Serve the application's metrics behind one of our own; tell the port."""
    merged = MergedMetrics(
        lambda: [gauge("up", "1 while the program runs.", 1)],
        sources=lambda: [application_source(port)],
    )
    async with http_server("127.0.0.1", 0, merged.answer) as (number, _):
        print(number, flush=True)
        await asyncio.Event().wait()


async def scrape(port: int, *, gzip: bool = False, pause_s: float = 0) -> tuple[float, int]:
    """Returns the seconds it took, and the bytes that came."""
    begun = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    accept = "accept-encoding: gzip\r\n" if gzip else ""
    writer.write(f"GET /metrics HTTP/1.1\r\nhost: a\r\n{accept}connection: close\r\n\r\n".encode())
    received = 0
    while piece := await reader.read(1 << 20):
        received += len(piece)
        if pause_s:
            await asyncio.sleep(pause_s)
    writer.close()
    await writer.wait_closed()
    return time.perf_counter() - begun, received


async def eight(port: int) -> None:
    await asyncio.gather(*(scrape(port, pause_s=0.005) for _ in range(8)))


@contextmanager
def running(*arguments: object) -> Iterator[tuple[int, int]]:
    """Start this program in another role; yields its port and its pid."""
    command = [sys.executable, __file__, *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline()), process.pid
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def peak_during(pid: int, work: Coroutine[object, object, object]) -> float:
    peak = resident_mb(pid)
    task = asyncio.ensure_future(work)
    while not task.done():
        peak = max(peak, resident_mb(pid))
        await asyncio.sleep(0.002)
    await task
    return peak


async def measure(megabytes: int) -> None:
    with (
        running("application", megabytes) as (direct, _),
        running("merging", direct) as (port, pid),
    ):
        await scrape(port)  # what is loaded at the first scrape does not count
        before = resident_mb(pid)
        for name, work in (
            ("plain", scrape(port)),
            ("gzip", scrape(port, gzip=True)),
            ("slow scraper", scrape(port, pause_s=0.02)),
            ("8 at once", eight(port)),
        ):
            peak = await peak_during(pid, work)
            print(
                f"memory, {name}: {before:.1f} MB before, {peak:.1f} at most, "
                f"{resident_mb(pid):.1f} after"
            )
        times: dict[str, list[float]] = {"direct": [], "merged": [], "merged, gzip": []}
        used: dict[str, float] = {}
        for _ in range(ROUNDS):
            for name, (number, gzip) in (
                ("direct", (direct, False)),
                ("merged", (port, False)),
                ("merged, gzip", (port, True)),
            ):
                cpu = cpu_s(pid)
                seconds, received = await scrape(number, gzip=gzip)
                used[name] = used.get(name, 0) + cpu_s(pid) - cpu
                times[name].append(seconds)
                assert received > (1_000_000 if gzip else megabytes * 990_000)
        base = median(times["direct"])
        for name, each in times.items():
            found = median(each)
            print(
                f"time, {name}: {found * 1000:.0f} ms, ratio {found / base:.1f}, "
                f"CPU of the merging process {used[name] / ROUNDS * 1000:.0f} ms"
            )


def main() -> None:
    match sys.argv[1:]:
        case ["application", megabytes]:
            uvloop.run(application(int(megabytes)))
        case ["merging", port]:
            uvloop.run(merging(int(port)))
        case [megabytes]:
            uvloop.run(measure(int(megabytes)))
        case _:
            uvloop.run(measure(30))


if __name__ == "__main__":
    main()
