"""What an agent costs: its start until Envoy is ready, imports, memory and CPU while idle.

Starts a control plane and, several times, an agent beside it, as processes of their own. Figures
go to standard output, each with its budget. With `--against` and `--peer-agent`, other agents are
started in turn with this one. Linux only; needs `envoy` beside this Python or on PATH.
"""

import argparse
import http.client
import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from mesh_ca import TokenIssuer
from mesh_testkit import measurements

HOST = "127.83.0.1"
CONTROL_PLANE = "127.0.0.1:18312"
"""An address that is in the control plane's certificate: Istio's agent checks it for the CA."""
PEER_STATUS_PORT = 18320
WORKLOAD = "127.83.1.1"
ISSUER = "https://bench.example"
LIBRARIES = "grpc.aio, uvloop, cryptography.x509"
"""Those that no such agent can do without: its floor."""
CONFIG = """
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: default}
spec:
  hosts: [web.default.svc.cluster.local]
  ports: [{number: 8080, name: http, protocol: HTTP}]
  location: MESH_INTERNAL
  resolution: STATIC
  endpoints: [{address: 127.83.1.1, serviceAccount: web, ports: {http: 8080}}]
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--idle-s", type=float, default=20.0)
    parser.add_argument(
        "--against",
        action="append",
        default=[],
        metavar="PATH",
        help="a mesh-agent of another installation, started in turn with this one",
    )
    parser.add_argument("--peer-agent", metavar="PATH", help="pilot-agent, Istio's agent")
    parser.add_argument(
        "--peer-template", metavar="PATH", help="envoy_bootstrap.json of Istio, which it needs"
    )
    options = parser.parse_args()

    own = str(Path(sys.executable).with_name("mesh-agent"))
    agents = [Agent("agent", own), *(Agent(path, path) for path in options.against)]
    if options.peer_agent:
        agents.append(Agent("Istio's agent", options.peer_agent, template=options.peer_template))
    tell_floor(options.starts)
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        with control_plane(top):
            measure_starts(top, agents, options.starts)
            with agent(top) as (process, _):
                measure_idle(process.pid, options.idle_s)


class Agent(NamedTuple):
    """A program whose start is measured; one with a template is Istio's agent."""

    name: str
    program: str
    template: str | None = None


class Start(NamedTuple):
    """What a start took until Envoy was ready: seconds, and seconds of CPU of the agent alone."""

    ready_s: float
    cpu_s: float


def tell_floor(rounds: int) -> None:
    """What the libraries cost that no such agent can do without, and the agent's own modules."""
    for name, modules in (
        ("import nothing", "sys"),
        (f"import {LIBRARIES}", LIBRARIES),
        ("import all of the agent", "mesh_agent._process, mesh_agent._agent"),
        ("import mesh_agent_cli", "mesh_agent_cli"),
    ):
        cpu = [import_cpu_seconds(modules) for _ in range(rounds)]
        tell(f"{name}, CPU", statistics.median(cpu) * 1000, "ms", None)


def measure_starts(top: Path, agents: Sequence[Agent], rounds: int) -> None:
    """Start the agents in turn, round by round, and tell median and range of each."""
    starts: dict[str, list[Start]] = {each.name: [] for each in agents}
    floor = []
    for _ in range(rounds):
        floor.append(import_cpu_seconds(LIBRARIES) * 1000)
        for each in agents:
            running = agent(top, program=each.program) if each.template is None else peer(top, each)
            with running as (_, start):
                starts[each.name].append(start)
    for index, (name, measured) in enumerate(starts.items()):
        budgets = (450.0, 350.0) if index == 0 else (None, None)
        for what, budget, values in (
            ("start to ready", budgets[0], [each.ready_s * 1000 for each in measured]),
            ("CPU of it", budgets[1], [each.cpu_s * 1000 for each in measured]),
        ):
            tell(f"{name}: {what}", statistics.median(values), "ms", budget)
            print(f"{'':32} {min(values):9.0f}-{max(values):.0f}", flush=True)
    ours = [start.cpu_s * 1000 for start in starts[agents[0].name]]
    row = measurements.Row("agent, start to ready: CPU", "ms", ours, {measurements.FLOOR: floor})
    measurements.tell([row])


def measure_idle(pid: int, seconds: float) -> None:
    time.sleep(5)
    before, started = threads(pid), time.monotonic()
    time.sleep(seconds)
    passed, after = time.monotonic() - started, threads(pid)
    used = [(now - before.get(tid, Thread("", 0, 0)), now) for tid, now in after.items()]
    memory = rollup_kib(pid)
    unique = memory["Private_Clean"] + memory["Private_Dirty"]
    tell("agent unique memory, idle", unique / 1024, "MB", None)
    floor = {measurements.FLOOR: [imported_kib() / 1024]}
    row = measurements.Row("agent, idle: unique memory", "MB", [unique / 1024], floor)
    measurements.tell([row])
    tell("  and its share of files (PSS)", memory["Pss"] / 1024, "MB", 34)
    tell("  and all of the files (RSS)", memory["Rss"] / 1024, "MB", 46)
    tell("agent CPU, idle", sum(cpu for (cpu, _), _ in used) / 1e7 / passed, "%", 0.5)
    tell("agent wake-ups", sum(wakes for (_, wakes), _ in used) * 60 / passed, "/min", None)
    for (_, wakes), thread in used:
        if wakes:
            tell(f"  {thread.name}", wakes * 60 / passed, "/min", None)
    tell("envoy RSS", status_kib(child_of(pid), "VmRSS") / 1024, "MB", None)


class Thread(NamedTuple):
    """What a thread has used: nanoseconds of a core, and how often it was woken."""

    name: str
    cpu_ns: int
    wakes: int

    def __sub__(self, before: "Thread") -> tuple[int, int]:
        return self.cpu_ns - before.cpu_ns, self.wakes - before.wakes


def threads(pid: int) -> dict[int, Thread]:
    """The scheduler's own account, to the nanosecond: clock ticks are too coarse for an idler."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        status = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
        found[int(task.name)] = Thread(
            name=status["Name"].strip(),
            cpu_ns=int((task / "schedstat").read_text().split()[0]),
            wakes=int(status["voluntary_ctxt_switches"]),
        )
    return found


def tell(what: str, value: float, unit: str, budget: float | None) -> None:
    verdict = (
        ""
        if budget is None
        else f"   budget {budget} {unit}" + ("" if value <= budget else "   OVER")
    )
    print(f"{what:32} {value:9.2f} {unit:4}{verdict}", flush=True)


def import_cpu_seconds(modules: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", f"import {modules}"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def imported_kib() -> int:
    """Return the unique memory of a process that has imported the libraries, in KiB."""
    with subprocess.Popen(
        [sys.executable, "-c", f"import {LIBRARIES}; print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        memory = rollup_kib(process.pid)
        process.communicate(b"\n")
    return memory["Private_Clean"] + memory["Private_Dirty"]


def process_cpu_seconds(pid: int) -> float:
    """User and system time of a process with all its threads, without its children."""
    return time.clock_gettime((~pid << 3) | 2)  # its clock, as clock_getcpuclockid(3) makes it


@contextmanager
def control_plane(top: Path) -> Iterator[None]:
    config, authority = top / "config", top / "authority"
    config.mkdir()
    (config / "web.yaml").write_text(CONFIG)
    tokens = TokenIssuer(top / "tokens", ISSUER)
    jwks = top / "jwks.json"
    tokens.write_jwks(jwks)
    secrets = top / "agent/var/run/secrets"
    (secrets / "tokens").mkdir(parents=True)
    (secrets / "tokens/istio-token").write_text(
        tokens.issue(namespace="default", service_account="web")
    )
    arguments = [
        *("--config-dir", str(config), "--ca-dir", str(authority)),
        *("--jwks-file", str(jwks), "--jwt-issuer", ISSUER),
        *("--grpc-addr", "", "--secure-grpc-addr", CONTROL_PLANE),
        *("--http-addr", f"{HOST}:8080", "--monitoring-addr", f"{HOST}:15014"),
    ]
    discovery = [sys.executable, "-m", "mesh_discovery", "discovery", *arguments]
    with process_of("mesh_discovery", discovery, top, {}):
        wait_for(HOST, 8080, "/ready")
        (secrets / "istio").mkdir()
        shutil.copy(authority / "root-cert.pem", secrets / "istio/root-cert.pem")
        yield


@contextmanager
def agent(
    top: Path,
    more: Mapping[str, str] = MappingProxyType({}),
    proxy: Mapping[str, object] = MappingProxyType({}),
    flags: tuple[str, ...] = (),
    program: str | None = None,
) -> Iterator[tuple[subprocess.Popen[bytes], Start]]:
    """Start an agent; yields it once it is ready, and what that took.

    more: further environment; proxy: further fields of its proxy config. program: the command;
    None takes that of this installation.
    """
    environ = {
        **workload_environment(proxy),
        "MESH_AGENT_BIND_ADDRESS": WORKLOAD,
        "DNS_PROXY_ADDR": f"{WORKLOAD}:15053",
        **more,
    }
    program = program or str(Path(sys.executable).with_name("mesh-agent"))
    command = [program, "proxy", "sidecar", *flags]
    begin = time.monotonic()
    with process_of("mesh_agent", command, top / "agent", environ) as process:
        wait_for(WORKLOAD, 15020, "/healthz/ready")
        yield process, Start(time.monotonic() - begin, process_cpu_seconds(process.pid))


@contextmanager
def peer(top: Path, istio: Agent) -> Iterator[tuple[subprocess.Popen[bytes], Start]]:
    """Start Istio's agent with the same files and control plane, and the same Envoy."""
    envoy = Path(sys.executable).with_name("envoy")
    binary = str(envoy) if envoy.exists() else shutil.which("envoy")
    environ = {
        **workload_environment({"binaryPath": binary, "statusPort": PEER_STATUS_PORT}),
        "CA_ADDR": CONTROL_PLANE,
        "TERMINATION_DRAIN_DURATION_SECONDS": "0",
    }
    command = [istio.program, "proxy", "sidecar", "--templateFile", str(istio.template)]
    begin = time.monotonic()
    with process_of("istio", command, top / "agent", environ) as process:
        wait_for("127.0.0.1", PEER_STATUS_PORT, "/healthz/ready")
        yield process, Start(time.monotonic() - begin, process_cpu_seconds(process.pid))


def workload_environment(proxy: Mapping[str, object]) -> dict[str, str]:
    """Return the variables by which every agent knows its workload and its control plane."""
    return {
        "POD_NAME": "web-1",
        "POD_NAMESPACE": "default",
        "SERVICE_ACCOUNT": "web",
        "INSTANCE_IP": WORKLOAD,
        "ISTIOD_SAN": "istiod.istio-system.svc",
        "PROXY_CONFIG": json.dumps({"discoveryAddress": CONTROL_PLANE, "concurrency": 1, **proxy}),
        "ISTIO_META_INTERCEPTION_MODE": "NONE",
        "ISTIO_META_APP_ADDRESS": "127.83.1.2",
        "ISTIO_META_OUTBOUND_BIND_ADDRESS": "127.83.1.3",
    }


@contextmanager
def process_of(
    name: str, command: list[str], directory: Path, environ: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    with (directory / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env={**os.environ, **environ},
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    except TimeoutError:
        sys.stderr.write((directory / f"{name}.log").read_text()[-4000:])
        raise
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def wait_for(host: str, port: int, path: str, timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        connection = http.client.HTTPConnection(host, port, timeout=1)
        try:
            connection.request("GET", path)
            if connection.getresponse().status == http.HTTPStatus.OK:
                return
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(0.02)
    raise TimeoutError(f"{host}:{port}{path} was not ready within {timeout_s} s")


def status_kib(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    raise ValueError(f"no {field} in /proc/{pid}/status")


def rollup_kib(pid: int) -> dict[str, int]:
    """Read the memory of a process; PSS divides shared pages among those who map them."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {name: int(value.split()[0]) for name, value in (line.split(":") for line in lines)}


def child_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


if __name__ == "__main__":
    main()
