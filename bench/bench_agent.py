"""What an agent costs: imports, time to a ready Envoy, memory and CPU while idle.

Starts a control plane and, several times, an agent beside it, as processes of their own. Figures
go to standard output, each with its budget. Linux only; needs an Envoy (see `--envoy`).
"""

import argparse
import http.client
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from mesh_ca import TokenIssuer

HOST = "127.83.0.1"
WORKLOAD = "127.83.1.1"
ISSUER = "https://bench.example"
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
    options = parser.parse_args()

    imports = [import_seconds("mesh_agent._agent") for _ in range(options.starts)]
    cli = [import_seconds("mesh_agent_cli") for _ in range(options.starts)]
    tell("agent imports", statistics.median(imports) * 1000, "ms", 300)
    tell("mesh_agent_cli import", statistics.median(cli) * 1000, "ms", 100)

    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        with control_plane(top):
            readies = []
            for _ in range(options.starts):
                with agent(top) as (process, ready_s):
                    readies.append(ready_s)
                    last = process.pid
                    if len(readies) == options.starts:
                        measure_idle(last, options.idle_s)
            tell("start to ready, median", statistics.median(readies) * 1000, "ms", 1000)
            tell("start to ready, slowest", max(readies) * 1000, "ms", None)


def measure_idle(pid: int, seconds: float) -> None:
    time.sleep(5)
    before, started = threads(pid), time.monotonic()
    time.sleep(seconds)
    passed, after = time.monotonic() - started, threads(pid)
    used = [(now - before.get(tid, Thread("", 0, 0)), now) for tid, now in after.items()]
    memory = rollup_kib(pid)
    unique = memory["Private_Clean"] + memory["Private_Dirty"]
    tell("agent unique memory, idle", unique / 1024, "MB", None)
    tell("  and its share of files (PSS)", memory["Pss"] / 1024, "MB", 60)
    tell("  and all of the files (RSS)", memory["Rss"] / 1024, "MB", None)
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


def import_seconds(module: str) -> float:
    code = (
        "import time; begin = time.perf_counter(); "
        f"import {module}; print(time.perf_counter() - begin)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(done.stdout)


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
        *("--grpc-addr", "", "--secure-grpc-addr", f"{HOST}:15012"),
        *("--http-addr", f"{HOST}:8080", "--monitoring-addr", f"{HOST}:15014"),
    ]
    with process_of("mesh_discovery", ["discovery", *arguments], top, {}):
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
) -> Iterator[tuple[subprocess.Popen[bytes], float]]:
    """Start an agent; yields it once it is ready, and the seconds that this took.

    more: further environment; proxy: further fields of its proxy config.
    """
    environ = {
        "POD_NAME": "web-1",
        "POD_NAMESPACE": "default",
        "SERVICE_ACCOUNT": "web",
        "INSTANCE_IP": WORKLOAD,
        "MESH_AGENT_BIND_ADDRESS": WORKLOAD,
        "ISTIOD_SAN": "istiod.istio-system.svc",
        "PROXY_CONFIG": json.dumps(
            {"discoveryAddress": f"{HOST}:15012", "concurrency": 1, **proxy}
        ),
        "ISTIO_META_INTERCEPTION_MODE": "NONE",
        "ISTIO_META_APP_ADDRESS": "127.83.1.2",
        "ISTIO_META_OUTBOUND_BIND_ADDRESS": "127.83.1.3",
        "DNS_PROXY_ADDR": f"{WORKLOAD}:15053",
        **more,
    }
    begin = time.monotonic()
    with process_of("mesh_agent", ["proxy", "sidecar", *flags], top / "agent", environ) as process:
        wait_for(WORKLOAD, 15020, "/healthz/ready")
        yield process, time.monotonic() - begin


@contextmanager
def process_of(
    module: str, arguments: list[str], directory: Path, environ: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    with (directory / f"{module}.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=directory,
            env={**os.environ, **environ},
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    except TimeoutError:
        sys.stderr.write((directory / f"{module}.log").read_text()[-4000:])
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
        time.sleep(0.01)
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
