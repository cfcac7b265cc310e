"""What a query costs: hits, mixed, TCP, misses with and without cache, swaps, memory; beside peers.

    python bench/bench_dns.py [--seconds 4] [--only WORD ...]

Load comes from `dnsperf` (Debian: apt-get install dnsperf) on the last core, what is measured runs
on the first. Beside the server, in the same run, alternating with it: a bare loop over a dictionary
(bare_loop.py, uvloop's datagram protocol and the reader callback), and dnsmasq and unbound where
they are installed (Debian: dnsmasq-base, unbound). Absolute figures are this machine's at this
moment; the ratios are what to compare. WORD: hits, latency, tcp, misses, swaps, memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
FIRST, LAST = min(os.sched_getaffinity(0)), max(os.sched_getaffinity(0))
SWAPPED = 50_000
STEADY = ("-Q", "20000", "-v")


class Running(NamedTuple):
    """A process that answers on a port."""

    port: int
    pid: int

    def cpu_s(self) -> float:
        """The time of a processor that it has taken."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_mb(self) -> float:
        """The memory that it has."""
        found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())
        return int(found[1]) / 1024 if found else 0.0


class Load(NamedTuple):
    """What dnsperf said."""

    completed: int
    per_second: float
    lost: int
    mean_ms: float
    p99_ms: float | None
    rcodes: str

    def __str__(self) -> str:
        p99 = "" if self.p99_ms is None else f"  p99 {self.p99_ms:5.2f} ms"
        return (
            f"{self.per_second:8.0f} q/s  mean {self.mean_ms:5.2f} ms{p99}"
            f"  lost {self.lost}  {self.rcodes}"
        )


def free_port() -> int:
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.bind(("127.0.0.1", 0))
            port: int = udp.getsockname()[1]
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tcp:
                try:
                    tcp.bind(("127.0.0.1", port))
                except OSError:
                    continue
            return port


@contextmanager
def process(*command: str, port: int, core: int = FIRST) -> Iterator[Running]:
    """Run what answers on a port; waits until it does."""
    started = subprocess.Popen(
        ["taskset", "-c", str(core), *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_answering(port, started)
        yield Running(port, started.pid)
    finally:
        started.send_signal(signal.SIGTERM)
        started.wait()


def _wait_answering(port: int, started: subprocess.Popen[bytes]) -> None:
    query = struct.pack("!6H", 7, 0x0100, 1, 0, 0, 0)
    query += b"\x09service-0\x07example\x03com\0\0\1\0\1"
    deadline = time.monotonic() + 60
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("127.0.0.1", port))
        sock.settimeout(0.2)
        while time.monotonic() < deadline and started.poll() is None:
            try:
                sock.send(query)
                if sock.recv(4096)[3] & 15 == 0:
                    return
                time.sleep(0.1)
            except OSError:
                time.sleep(0.1)
    raise SystemExit(f"{started.args!r} does not answer")


def dnsperf(port: int, queries: Path, seconds: float, *options: str) -> Load:
    """Ask as fast as answers come, or as `-Q` in the options says.

    With `-v`, dnsperf writes a line for each answer, which percentiles come from; that costs it
    a part of its speed.
    """
    with tempfile.TemporaryDirectory() as directory:
        command = ["taskset", "-c", str(LAST), "dnsperf", "-s", "127.0.0.1", "-p", str(port)]
        command += ["-d", str(queries), "-l", str(seconds), "-c", "8", "-q", "200", "-t", "10"]
        output = Path(directory, "output")
        with output.open("wb") as file:
            subprocess.run([*command, *options], stdout=file, stderr=subprocess.STDOUT, check=True)
        return _read(output)


def _read(output: Path) -> Load:
    latencies = []
    summary = []
    with output.open(errors="replace") as file:
        for line in file:
            if line.startswith("> "):
                last = line.rsplit(" ", 1)[1]
                if last[0].isdigit():
                    latencies.append(float(last))
            else:
                summary.append(line)
    text = "".join(summary)

    def number(pattern: str) -> float:
        found = re.search(pattern, text)
        return float(found[1]) if found else float("nan")

    codes = re.search(r"Response codes:\s+(.*)", text)
    latencies.sort()
    return Load(
        int(number(r"Queries completed:\s+(\d+)")),
        number(r"Queries per second:\s+([\d.]+)"),
        int(number(r"Queries lost:\s+(\d+)")),
        number(r"Average Latency \(s\):\s+([\d.]+)") * 1000,
        latencies[int(len(latencies) * 0.99)] * 1000 if latencies else None,
        codes[1].strip() if codes else "",
    )


class Bench:
    """The places and programs of one run."""

    def __init__(self, directory: Path, seconds: float) -> None:
        self.directory = directory
        self.seconds = seconds
        self.table = self._table(100)
        self.hits = self._file("hits", [f"service-{n}.example.com A" for n in range(100)])
        mixed = [f"service-{n}.example.com {kind}" for n in range(100) for kind in ("A", "AAAA")]
        self.mixed = self._file("mixed", mixed)
        self.misses = self._file("misses", [f"host-{n}.test A" for n in range(100)])
        self.resolv_conf = self._file("resolv.conf", ["search svc.cluster.local"])

    def _file(self, name: str, lines: Sequence[str]) -> Path:
        file = self.directory / name
        file.write_text("\n".join(lines) + "\n")
        return file

    def _table(self, count: int) -> Path:
        names = {
            f"service-{n}.example.com": {"ips": [f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}"]}
            for n in range(count)
        }
        return self._file(f"table-{count}.json", [json.dumps({"table": names})])

    @contextmanager
    def server(self, *options: str, table: Path | None = None) -> Iterator[Running]:
        port = free_port()
        command = [sys.executable, "-m", "mesh_dnsproxy", "--listen", f"127.0.0.1:{port}"]
        command += ["--table", str(table or self.table), "--log-level", "warn"]
        command += ["--resolv-conf", str(self.resolv_conf), *options]
        with process(*command, port=port) as running:
            yield running

    @contextmanager
    def bare(self, kind: str) -> Iterator[Running]:
        port = free_port()
        command = [sys.executable, str(HERE / "bare_loop.py"), kind, str(port), "100"]
        with process(*command, port=port) as running:
            yield running

    @contextmanager
    def dnsmasq(self, core: int = FIRST) -> Iterator[Running]:
        """A server that knows the same names, and answers for `test` by itself."""
        port = free_port()
        hosts = [f"10.0.0.{n} service-{n}.example.com" for n in range(100)]
        file = self._file("hosts", hosts)
        command = ["dnsmasq", "--keep-in-foreground", "--no-resolv", "--no-hosts", "--no-daemon"]
        command += [f"--port={port}", f"--addn-hosts={file}", "--address=/test/10.9.9.9"]
        command += ["--listen-address=127.0.0.1", "--bind-interfaces", "--pid-file="]
        command += ["--user=root", "--conf-file=/dev/null", "--cache-size=10000", "--local-ttl=60"]
        command += ["--dns-forward-max=5000"]
        with process(*command, port=port, core=core) as running:
            yield running

    @contextmanager
    def unbound(self, upstream: int) -> Iterator[Running]:
        port = free_port()
        file = self._file(
            "unbound.conf",
            [
                "server:",
                f'  interface: 127.0.0.1@{port}\n  username: ""\n  chroot: ""\n  pidfile: ""',
                f'  use-syslog: no\n  directory: "{self.directory}"\n  num-threads: 1',
                "  do-not-query-localhost: no\n  module-config: iterator",
                '  local-zone: "test." transparent\n  domain-insecure: "test."',
                f'forward-zone:\n  name: "."\n  forward-addr: 127.0.0.1@{upstream}',
            ],
        )
        with process("unbound", "-d", "-c", str(file), port=port) as running:
            yield running

    def measure(
        self, what: str, running: Running, queries: Path, *options: str, seconds: float = 0
    ) -> Load:
        """Ask, and tell what a query cost the process: also right where others are at work."""
        before = running.cpu_s()
        load = dnsperf(running.port, queries, seconds or self.seconds, *options)
        each_us = (running.cpu_s() - before) / max(1, load.completed) * 1e6
        print(f"  {what:36} {load}  {each_us:5.1f} us CPU a query", flush=True)
        return load


def hits(bench: Bench) -> None:
    print("hits, 100 names; as fast as answers come")
    rates: dict[str, list[float]] = {}

    def take(what: str, running: Running, queries: Path) -> None:
        rates.setdefault(what, []).append(bench.measure(what, running, queries).per_second)

    for _ in range(2):
        with bench.bare("protocol") as running:
            take("bare loop, uvloop datagram protocol", running, bench.hits)
        with bench.bare("recvfrom") as running:
            take("bare loop, reader callback", running, bench.hits)
        with bench.server() as running:
            take("mesh-dnsproxy, A", running, bench.hits)
            take("mesh-dnsproxy, A and AAAA", running, bench.mixed)
        if shutil.which("dnsmasq"):
            with bench.dnsmasq() as running:
                take("dnsmasq, A", running, bench.hits)
    best = {what: max(found) for what, found in rates.items()}
    ours = best["mesh-dnsproxy, A"]
    for what in ("bare loop, uvloop datagram protocol", "bare loop, reader callback", "dnsmasq, A"):
        if what in best:
            print(f"  best of two, mesh-dnsproxy / {what}: {ours / best[what]:.2f}")


def latency(bench: Bench) -> None:
    print("20 000 queries a second")
    with bench.bare("protocol") as running:
        bench.measure("bare loop, uvloop datagram protocol", running, bench.hits, *STEADY)
    with bench.server() as running:
        bench.measure("mesh-dnsproxy, A", running, bench.hits, *STEADY)
        bench.measure("mesh-dnsproxy, A and AAAA", running, bench.mixed, *STEADY)


def tcp(bench: Bench) -> None:
    print("hits over TCP, 8 connections")
    with bench.server() as running:
        bench.measure("mesh-dnsproxy, A over TCP", running, bench.hits, "-m", "tcp")


def misses(bench: Bench) -> None:
    print("names that an upstream knows (dnsmasq, on the core of the load)")
    if not shutil.which("dnsmasq"):
        print("  there is no dnsmasq: apt-get install dnsmasq-base")
        return
    with bench.dnsmasq(core=LAST) as upstream:
        bench.measure("dnsmasq, the upstream itself", upstream, bench.misses)
        to = f"--upstream=127.0.0.1:{upstream.port}"
        with bench.server(to) as running:
            bench.measure("mesh-dnsproxy, with cache", running, bench.misses)
        with bench.server(to, "--no-cache") as running:
            bench.measure("mesh-dnsproxy, without cache", running, bench.misses)
        with bench.server(to, "--no-cache", "--no-coalesce") as running:
            bench.measure("mesh-dnsproxy, each query forwarded", running, bench.misses)
        if shutil.which("unbound"):
            with bench.unbound(upstream.port) as running:
                bench.measure("unbound, with cache", running, bench.misses)
        else:
            print("  there is no unbound: apt-get install unbound")


def swaps(bench: Bench) -> None:
    print(f"{SWAPPED} names, another table every second, 20 000 queries a second")
    port = free_port()
    seconds = max(10, int(bench.seconds))
    rng = random.Random(1)
    numbers = rng.sample(range(SWAPPED), 2000)
    queries = bench._file("swapped", [f"service-{n}.example.com A" for n in numbers])
    command = [sys.executable, __file__, "--swapping-server", str(port)]
    with process(*command, port=port) as running:
        for what, asked in (("2 000 of the names asked for", queries), ("100 of them", bench.hits)):
            bench.measure(what, running, asked, *STEADY, seconds=seconds)
        wrong = _wrong_answers(port, seconds)
        print(f"  answers that were of no table: {wrong}")


def _wrong_answers(port: int, seconds: float) -> str:
    """Ask one after the other, and look at each answer: two addresses of one and the same table."""
    asked = wrong = 0
    rng = random.Random(2)
    until = time.monotonic() + seconds
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("127.0.0.1", port))
        sock.settimeout(10)
        while time.monotonic() < until:
            name = b"service-%d" % rng.randrange(SWAPPED)
            query = struct.pack("!6H", asked & 0xFFFF, 0x0100, 1, 0, 0, 0)
            query += bytes((len(name),)) + name + b"\x07example\x03com\0\0\1\0\1"
            sock.send(query)
            answer = sock.recv(4096)
            first, second = answer[len(query) + 12 :][:4], answer[len(query) + 28 :][:4]
            good = answer[:2] == query[:2] and answer[7] == 2 and first[1] == second[1]
            asked += 1
            wrong += not good
    return f"{wrong} of {asked}"


async def swapping_server(port: int) -> None:
    """Serve 50 000 names, from another table every second."""
    from mesh_dnsproxy import DnsConfig, ListenAddress, NameEntry, serving

    def table(number: int) -> dict[str, NameEntry]:
        entry = NameEntry((f"10.{number}.0.1", f"10.{number}.0.2"))
        return {f"service-{n}.example.com": entry for n in range(SWAPPED)}

    tables = [table(0), table(1)]
    config = DnsConfig(listen=(ListenAddress("127.0.0.1", port),), resolv_conf=None)
    async with serving(config) as server:
        for number in range(1 << 30):
            server.set_table(tables[number % 2])
            await server.wait_table_in_use()
            await asyncio.sleep(1)


def memory(bench: Bench) -> None:
    print("memory (RSS), after each name was asked for once where there are 10 000 at most")
    for count in (100, 10_000, 50_000):
        table = bench._table(count)
        asked = bench._file("all", [f"service-{n}.example.com A" for n in range(count)])
        with bench.server(table=table) as running:
            before = running.rss_mb()
            dnsperf(running.port, asked, 2, *STEADY)
            print(f"  {count:6} names: {before:.1f} MB, {running.rss_mb():.1f} MB after queries")


PARTS = {
    "hits": hits,
    "latency": latency,
    "tcp": tcp,
    "misses": misses,
    "swaps": swaps,
    "memory": memory,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement")
    parser.add_argument("--only", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--swapping-server", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.swapping_server:
        import uvloop

        uvloop.run(swapping_server(given.swapping_server))
        return 0
    for program, package in (("dnsperf", "dnsperf"), ("taskset", "util-linux")):
        if shutil.which(program) is None:
            print(f"there is no {program}: apt-get install {package}")
            return 0
    print(f"load average {os.getloadavg()[0]:.1f}, cores {FIRST} (measured) and {LAST} (load)")
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory), given.seconds)
        for name in given.only:
            PARTS[name](bench)
    return 0


if __name__ == "__main__":
    sys.exit(main())
