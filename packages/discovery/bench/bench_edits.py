"""Edits of the files: from the edit to the last sidecar, and the server's CPU and memory for it.

Run as a script. The load is `sidecars.py`, or with `--sidecars PATH` a program that is faster, and
so tells more of the time to the last sidecar: it connects as `-n` sidecars to `-addr`, says on a
line of JSON when all have their configuration, and answers the lines `arm TEXT` and
`wait TYPES SECONDS` with when a response with the text came to the first and to the last of them.
Servers and load have processes of their own, and alternate in one run:

- the control plane of this checkout, as it is started in production;
- with `--against PYTHON`, that of the checkout whose interpreter it is;
- with `--peer COMMAND`, another control plane that reads Istio's files, such as istiod:
  `pilot-discovery discovery --registries= --configDir {directory} --meshConfig {mesh}
  --grpcAddr 127.0.0.1:{port} ...`; {port1} to {port4} are further free ports;
- gRPC for Python alone: a line on its standard input makes it write as many bytes to every stream.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edit_stream import stream
from mesh_files import NAMESPACE, Files

from mesh_testkit.measurements import FLOOR, Row, tell

SIDECARS = str(Path(__file__).with_name("sidecars.py"))
FLOOR_SERVER = str(Path(__file__).with_name("grpc_floor.py"))
PATIENCE_S = 300


class Process:
    """A server or the load, with what the kernel says of it."""

    def __init__(self, command: list[str], *, log: Path, environment: dict[str, str]) -> None:
        self.started = time.time()
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, **environment},
        )

    def drain(self) -> None:
        """Throw away what it prints."""
        assert self._process.stdout is not None
        threading.Thread(target=self._process.stdout.read, daemon=True).start()

    def cpu_s(self) -> float:
        """Return the time of all its threads, by its clock: see clock_getcpuclockid(3)."""
        return time.clock_gettime((~self._process.pid << 3) | 2)

    def memory_mb(self) -> tuple[float, float, float]:
        """RSS, PSS and unique memory."""
        sizes: dict[str, int] = {}
        rollup = Path(f"/proc/{self._process.pid}/smaps_rollup").read_text()
        for line in rollup.splitlines()[1:]:
            name, size, *_ = line.split()
            sizes[name] = int(size)
        unique = sizes["Private_Clean:"] + sizes["Private_Dirty:"]
        return sizes["Rss:"] / 1024, sizes["Pss:"] / 1024, unique / 1024

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process ended with {self._process.wait()}")
        found: dict[str, Any] = json.loads(line)
        return found

    def end(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._log.close()


@dataclass
class Figures:
    """What one kind of edit took with one server, over the rounds."""

    last_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    load_cpu_s: list[float] = field(default_factory=list)
    sent_mb: list[float] = field(default_factory=list)


def free_ports(number: int) -> list[int]:
    """Return ports below those that the kernel gives to connections."""
    with contextlib.ExitStack() as stack:
        found: list[int] = []
        for port in random.sample(range(20_000, 32_000), 50 * number):
            each = stack.enter_context(socket.socket())
            if len(found) < number:
                with contextlib.suppress(OSError):
                    each.bind(("127.0.0.1", port))
                    found.append(port)
        return found


def wait_for_port(port: int) -> None:
    end = time.time() + PATIENCE_S
    while time.time() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise RuntimeError(f"nothing listens on {port}")


class Plane:
    """A control plane, its files, and the sidecars that are connected to it."""

    def __init__(self, name: str, command: str, arguments: argparse.Namespace, home: Path) -> None:
        home.mkdir()
        self.name = name
        self.files = Files(home, arguments.services, one=arguments.one_file, rules=arguments.rules)
        self._is_floor = command == "floor"
        ports = free_ports(5)
        if self._is_floor:
            words = [sys.executable, FLOOR_SERVER, str(ports[0])]
        else:
            places = {f"port{n}": str(port) for n, port in enumerate(ports)}
            words = [
                word.format(
                    directory=self.files.directory,
                    mesh=self.files.mesh,
                    port=ports[0],
                    home=home,
                    **places,
                )
                for word in shlex.split(command)
            ]
        self.server = Process(words, log=home / "server.log", environment={})
        if not self._is_floor:
            self.server.drain()
        wait_for_port(ports[0])
        self.serving_s = time.time() - self.server.started
        self.serving_cpu_s = self.server.cpu_s()
        self.empty_mb = self.server.memory_mb()
        program = [arguments.sidecars] if arguments.sidecars else [sys.executable, SIDECARS]
        load = [*program, "-addr", f"127.0.0.1:{ports[0]}", "-n", str(arguments.clients)]
        load += ["-delta"] if arguments.delta else []
        load += ["-spread", f"{arguments.spread:g}s"] if arguments.spread else []
        load += ["-namespace", NAMESPACE, "-timeout", f"{arguments.longest_start}s"]
        self.load = Process(load, log=home / "load.log", environment={})
        self.ready = self.load.answer()
        if self.ready["n"] != arguments.clients:
            self.end()
            raise RuntimeError(f"{name}: of {arguments.clients} sidecars {self.ready} are ready")
        self.ready_cpu_s = self.server.cpu_s() - self.serving_cpu_s
        self.full_mb = self.server.memory_mb()
        self._longest_s: float = arguments.longest
        self._counts = arguments.sidecars is not None
        self.figures: dict[str, Figures] = {}

    def answer_to(self, question: str) -> dict[str, Any]:
        """Ask the sidecars."""
        self.load.tell(question)
        return self.load.answer()

    def _sent_mb(self) -> float:
        """Return what the sidecars have read; `sidecars.py` does not count it."""
        sent: float = self.answer_to("stat").get("bytes", 0) / 1e6 if self._counts else 0.0
        return sent

    def edit(self, kind: str, *, quiet_s: float) -> None:
        text, type_name = self.files.wanted(kind)
        time.sleep(quiet_s)  # what the edit before left to do is not this one's
        self.load.tell(f"arm {text}")
        self.load.answer()
        sent_mb = self._sent_mb()
        cpu, load_cpu = self.server.cpu_s(), self.load.cpu_s()
        began = time.time()
        if self._is_floor:
            self.files.edit(kind)
            began = time.time()
            self.server.tell(text)
        else:
            self.files.edit(kind)
            began = (began + time.time()) / 2
        if self._is_floor:
            type_name = "EDS"
        self.load.tell(f"wait {type_name} {self._longest_s:g}")
        found = self.load.answer()
        time.sleep(0.3)  # the acknowledgements
        figures = self.figures.setdefault(kind, Figures())
        figures.cpu_s.append(self.server.cpu_s() - cpu)
        figures.load_cpu_s.append(self.load.cpu_s() - load_cpu)
        figures.sent_mb.append(self._sent_mb() - sent_mb)
        seen = found.get(type_name, {"n": 0})
        complete = seen["n"] == self.ready["n"]
        figures.last_s.append(seen["last"] - began if complete else float("nan"))
        figure = f"{kind} {self.name} {figures.last_s[-1]:.3f} s, {figures.cpu_s[-1]:.2f} CPU"
        unique_mb = self.server.memory_mb()[2]
        print(f"{figure}, {unique_mb:.0f} MB unique", file=sys.stderr, flush=True)

    def end(self) -> None:
        self.load.end()
        self.server.end()


def report(planes: list[Plane], kinds: list[str]) -> None:
    for plane in planes:
        ready = plane.ready
        print(
            f"{plane.name:8} serves after {plane.serving_s:.2f} s ({plane.serving_cpu_s:.2f} CPU); "
            f"{ready['n']} sidecars ready after {ready.get('last', float('nan')):.2f} s "
            f"({plane.ready_cpu_s:.2f} CPU); RSS/PSS/unique MB "
            f"{_sizes(plane.empty_mb)} at first, {_sizes(plane.full_mb)} with sidecars, "
            f"{_sizes(plane.server.memory_mb())} at the end"
        )
    heads = ("last, s", "CPU, s", "the load's CPU, s", "MB sent")
    print(f"{'edit':10}{'server':10}" + "".join(f"{head:>32}" for head in heads))
    for kind in kinds:
        for plane in planes:
            if (found := plane.figures.get(kind)) is not None:
                columns = (found.last_s, found.cpu_s, found.load_cpu_s, found.sent_mb)
                print(f"{kind:10}{plane.name:10}" + "".join(f"{_range(c):>32}" for c in columns))
    tell_rows({plane.name: plane.figures for plane in planes}, kinds)


def tell_rows(figures: Mapping[str, Mapping[str, Figures]], kinds: list[str]) -> None:
    """Tell ours beside the floor, which was measured with the first kind of edit."""
    if "floor" in figures:
        ours, floor = figures["ours"][kinds[0]], figures["floor"][kinds[0]]
        for what, unit, mine, bare in (
            ("edit of an endpoint: server's CPU", "ms", ours.cpu_s, floor.cpu_s),
            ("edit of an endpoint: to the last sidecar", "ms", ours.last_s, floor.last_s),
        ):
            scaled = [[value * 1000 for value in values] for values in (mine, bare)]
            tell([Row(what, unit, scaled[0], {FLOOR: scaled[1]})])


def _sizes(sizes: tuple[float, float, float]) -> str:
    return "/".join(f"{each:.0f}" for each in sizes)


def _range(values: list[float]) -> str:
    return f"{statistics.median(values):.3f} ({min(values):.3f}-{max(values):.3f})"


OURS = (
    "env MESH_DISCOVERY_BELIEVE_PLAINTEXT=true {python} -m mesh_discovery discovery "
    "--config-dir {{directory}} --mesh-config {{mesh}} "
    "--ca-dir {{home}}/ca --grpc-addr 127.0.0.1:{{port}} --secure-grpc-addr '' --http-addr '' "
    "--monitoring-addr 127.0.0.1:{{port1}} --log-as-json"
)


def parsed_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sidecars", help="another load than sidecars.py")
    parser.add_argument("--against", help="the interpreter of another checkout")
    parser.add_argument("--peer", help="the command of another control plane")
    parser.add_argument("--services", type=int, default=100)
    parser.add_argument("--rules", type=int, default=0, help="services with routes and a rule")
    parser.add_argument(
        "--stream", default="", help="EDITS/S,SECONDS: then edit at this rate, a plane at a time"
    )
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--delta", action="store_true")
    parser.add_argument("--one-file", action="store_true", help="not a file for each service")
    parser.add_argument("--edits", default="endpoint,add,remove,policy,workload,mesh")
    parser.add_argument("--quiet", type=float, default=1.0, help="seconds before each edit")
    parser.add_argument(
        "--longest", type=float, default=10, help="seconds; an edit not seen by then has no time"
    )
    parser.add_argument(
        "--longest-start", type=int, default=280, help="seconds until all sidecars are ready"
    )
    parser.add_argument(
        "--spread", type=float, default=0, help="seconds over which the sidecars connect"
    )
    parser.add_argument("--no-floor", action="store_true")
    parser.add_argument("--keep", help="a directory for the logs")
    arguments = parser.parse_args()
    if (arguments.spread or arguments.stream) and arguments.sidecars is None:
        parser.error("--spread and --stream need the load of --sidecars")
    return arguments


def main() -> None:
    arguments = parsed_arguments()
    commands = {"ours": OURS.format(python=sys.executable)}
    if arguments.against is not None:
        commands = {"before": OURS.format(python=arguments.against), **commands}
    if arguments.peer is not None:
        commands["peer"] = arguments.peer
    if not (arguments.no_floor or arguments.delta):
        commands["floor"] = "floor"
    kinds = arguments.edits.split(",")
    with contextlib.ExitStack() as stack:
        home = Path(arguments.keep or stack.enter_context(tempfile.TemporaryDirectory()))
        planes = []
        for name, command in commands.items():
            planes.append(Plane(name, command, arguments, home / name))
            stack.callback(planes[-1].end)
        for _ in range(arguments.rounds):
            for kind in kinds:
                for plane in planes:
                    if plane.name != "floor" or kind == kinds[0]:
                        plane.edit(kind, quiet_s=arguments.quiet)
        report(planes, kinds)
        if arguments.stream:
            per_s, _, seconds = arguments.stream.partition(",")
            for plane in planes:
                if plane.name != "floor":
                    stream(plane, kinds, per_s=float(per_s), seconds=float(seconds))


if __name__ == "__main__":
    main()
