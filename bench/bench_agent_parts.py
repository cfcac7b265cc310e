"""What each part of an agent costs, beside the bare sum of the libraries it uses.

First one process a library, each importing all before it as well: what it adds to memory and to
the time until the imports are done. Then the agent as it comes, with each optional part, and with
all of them: start to ready, memory and CPU while it is used as in a pod (a probe a second, a
scrape every five). The cases alternate. Linux only.
"""

import argparse
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from bench_agent import WORKLOAD, agent, control_plane, process_of, rollup_kib, threads

EVERYWHERE = "0.0.0.0"  # noqa: S104 - the agent asks it at two addresses
PORT = 18080

LIBRARIES = (
    ("python with asyncio", "import asyncio"),
    ("uvloop", "import uvloop"),
    ("h11", "import h11"),
    ("protobuf", "import google.protobuf.message, mesh_protos.ca_pb2"),
    ("cryptography", "from cryptography import x509"),
    ("grpc.aio", "import grpc.aio; grpc.aio.init_grpc_aio()"),
    (
        "our packages without the agent",
        "import certclient, mesh_sds, xds_proxy, envoy_supervisor",
    ),
    ("the agent", "import mesh_agent._process, mesh_agent._agent"),
)


NOTHING: Mapping[str, str] = MappingProxyType({})


class Case(NamedTuple):
    """An agent: environment, fields of its proxy config, flags."""

    environ: Mapping[str, str] = NOTHING
    proxy: Mapping[str, object] = NOTHING
    flags: tuple[str, ...] = ()


PROBERS = {"/app-health/web/readyz": {"httpGet": {"path": "/", "port": PORT}, "timeoutSeconds": 1}}
SCRAPES = {"scrape": "true", "port": str(PORT), "path": "/"}
CASES = {
    "plain": Case(),
    "DNS": Case(environ={"ISTIO_META_DNS_CAPTURE": "true"}),
    "application probes": Case(environ={"ISTIO_KUBE_APP_PROBERS": json.dumps(PROBERS)}),
    "application metrics": Case(environ={"ISTIO_PROMETHEUS_ANNOTATIONS": json.dumps(SCRAPES)}),
    "health check": Case(proxy={"readinessProbe": {"httpGet": {"path": "/", "port": PORT}}}),
    "token exchange": Case(
        environ={"MESH_AGENT_STS_URL": "http://127.0.0.1:9/token"}, flags=("--stsPort", "15463")
    ),
}
CASES["everything"] = Case(
    environ={name: text for case in CASES.values() for name, text in case.environ.items()},
    proxy={name: value for case in CASES.values() for name, value in case.proxy.items()},
    flags=tuple(flag for case in CASES.values() for flag in case.flags),
)


class Cost(NamedTuple):
    """Seconds to ready; memory in MB; CPU in percent of a core."""

    ready_s: float
    unique: float
    pss: float
    rss: float
    cpu: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--idle-s", type=float, default=10.0)
    options = parser.parse_args()
    measure_libraries(options.rounds)
    measure_cases(options.rounds, options.idle_s)


def measure_libraries(rounds: int) -> None:
    print(f"{'libraries, each with those above':34} {'unique':>8} {'PSS':>8} {'imported in':>12}")
    before = (0.0, 0.0, 0.0)
    for number, (name, _) in enumerate(LIBRARIES):
        code = "; ".join(line for _, line in LIBRARIES[: number + 1])
        found = [library(code) for _ in range(rounds)]
        unique, pss, seconds = (statistics.median(column) for column in zip(*found, strict=True))
        print(
            f"{name:34} {unique:5.1f} MB {pss:5.1f} MB {seconds * 1000:9.0f} ms"
            f"   adds {unique - before[0]:+5.1f} MB {(seconds - before[2]) * 1000:+5.0f} ms"
        )
        before = (unique, pss, seconds)


def library(code: str) -> tuple[float, float, float]:
    """Import in a process of its own; returns unique memory, PSS, and the seconds it took."""
    timed = (
        f"import time; begun = time.perf_counter(); {code}; "
        "print(time.perf_counter() - begun, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", timed], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        seconds = float(process.stdout.readline())
        memory = rollup_kib(process.pid)
        process.communicate("\n")
    return unique_mb(memory), memory["Pss"] / 1024, seconds


def unique_mb(memory: dict[str, int]) -> float:
    return (memory["Private_Clean"] + memory["Private_Dirty"]) / 1024


def measure_cases(rounds: int, idle_s: float) -> None:
    costs: dict[str, list[Cost]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as name, control_plane(Path(name)), application(Path(name)):
        for number in range(rounds):
            for case in sorted(CASES, reverse=bool(number % 2)):
                costs[case].append(cost(Path(name), CASES[case], idle_s))
    print(f"\n{'the agent with':22} {'ready':>9} {'unique':>9} {'PSS':>8} {'RSS':>8} {'CPU':>7}")
    for case in CASES:
        ready_s, unique, pss, rss, cpu = map(statistics.median, zip(*costs[case], strict=True))
        print(
            f"{case:22} {ready_s * 1000:6.0f} ms {unique:6.1f} MB {pss:5.1f} MB {rss:5.1f} MB"
            f" {cpu:5.2f} %"
        )


def cost(top: Path, case: Case, idle_s: float) -> Cost:
    with agent(top, case.environ, case.proxy, case.flags) as (process, start), used(case):
        time.sleep(3)
        before, started = threads(process.pid), time.monotonic()
        time.sleep(idle_s)
        passed, after = time.monotonic() - started, threads(process.pid)
        spent = sum(now.cpu_ns - before[tid].cpu_ns for tid, now in after.items() if tid in before)
        memory = rollup_kib(process.pid)
    return Cost(
        start.ready_s,
        unique_mb(memory),
        memory["Pss"] / 1024,
        memory["Rss"] / 1024,
        spent / 1e7 / passed,
    )


@contextmanager
def application(top: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "http.server", "--bind", EVERYWHERE, str(PORT)]
    with process_of("http.server", command, top, {}):
        yield


@contextmanager
def used(case: Case) -> Iterator[None]:
    """Ask the agent what a pod's kubelet and Prometheus ask it."""
    done = threading.Event()
    asked = []
    if "ISTIO_KUBE_APP_PROBERS" in case.environ:
        asked.append(threading.Thread(target=ask, args=(next(iter(PROBERS)), 1.0, done)))
    if "ISTIO_PROMETHEUS_ANNOTATIONS" in case.environ:
        asked.append(threading.Thread(target=ask, args=("/stats/prometheus", 5.0, done)))
    with ExitStack() as stack:
        for thread in asked:
            thread.start()
            stack.callback(thread.join)
        stack.callback(done.set)
        yield


def ask(path: str, period_s: float, done: threading.Event) -> None:
    while not done.wait(period_s):
        connection = http.client.HTTPConnection(WORKLOAD, 15020, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            if answer.status != http.HTTPStatus.OK:
                print(f"{path}: {answer.status}", file=sys.stderr)
        finally:
            connection.close()


if __name__ == "__main__":
    main()
