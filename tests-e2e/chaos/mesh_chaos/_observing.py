"""What is looked at while it goes on: memory, descriptors, certificates; and what is left after."""

import asyncio
import ssl
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from mesh_chaos._books import Presented
from mesh_chaos._tested_mesh import TestedMesh
from mesh_e2e import issued_to, mesh_client_context, presented_certificate, shared_memory_of

_LOOK_S = 2.0
_CLIENT_LIFE_S = 300.0
_LOOKER = "spiffe://cluster.local/ns/default/sa/looker"
SERVING = {"backend-1": 8080, "backend-2": 8080, "store": 9000}


@dataclass(slots=True, kw_only=True)
class Observations:
    """Samples by process, and certificates as they were presented."""

    memory_mb: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    descriptors: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    children: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    presented: dict[tuple[str, str], Presented] = field(default_factory=dict)
    shared_memory: set[Path] = field(default_factory=set)
    tracebacks: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    """What was left when all had ended."""

    def note_presented(self, seen: Presented) -> None:
        """Keep the last time that a workload presented a certificate."""
        self.presented[seen.workload, seen.serial] = seen


async def observe(tested: TestedMesh, seen: Observations) -> None:
    """Look again and again; never returns."""
    context, connected_at = _client(tested), time.monotonic()
    while True:
        if time.monotonic() > connected_at + _CLIENT_LIFE_S:
            context, connected_at = _client(tested), time.monotonic()
        _look_at_processes(tested, seen)
        for workload, port in SERVING.items():
            await _look_at_certificate(tested, seen, workload, port, context)
        await asyncio.sleep(_LOOK_S)


def _client(tested: TestedMesh) -> ssl.SSLContext:
    return mesh_client_context(tested.mesh, tested.directory / "looker", _LOOKER)


def _look_at_processes(tested: TestedMesh, seen: Observations) -> None:
    for name, part in tested.parts.items():
        label = name if name == "control plane" else f"agent of {name}"
        _look_at(label, part.pid, seen)
        if name == "control plane":
            continue
        envoys = part.envoys()
        if len(envoys) == 1:  # in a hot restart there are two, one of which is about to end
            _look_at(f"Envoy of {name}", envoys[0], seen)
        for pid in envoys:
            with suppress(OSError):
                seen.shared_memory |= shared_memory_of(pid)


def _look_at(label: str, pid: int, seen: Observations) -> None:
    with suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        memory, descriptors = process.memory_info().rss / 1e6, process.num_fds()
        if memory > 0 and process.status() != psutil.STATUS_ZOMBIE:
            seen.memory_mb[label].append(memory)
            seen.descriptors[label].append(descriptors)
            seen.children[label].append(len(process.children()))


async def _look_at_certificate(
    tested: TestedMesh, seen: Observations, workload: str, port: int, context: ssl.SSLContext
) -> None:
    host = tested.workload(workload).instance.addresses.inbound
    try:
        async with asyncio.timeout(5):
            certificate = await presented_certificate(host, port, context)
    except (OSError, ssl.SSLError, TimeoutError):
        return  # it is away, or stands still
    seen.note_presented(
        Presented(
            workload=workload,
            serial=f"{certificate.serial_number:x}",
            not_after=certificate.not_valid_after_utc.timestamp(),
            seen_at=time.time(),
        )
    )


def issued_serials(tested: TestedMesh) -> dict[str, frozenset[str]]:
    """Return what the authority's log says that it has issued to those that serve."""
    return {
        name: frozenset(each.serial for each in issued_to(tested.mesh, tested.workload(name)))
        for name in SERVING
    }


def log_lines(folder: Path) -> dict[str, int]:
    """Return how many lines each log has."""
    return {file.stem: sum(1 for _ in file.open("rb")) for file in sorted(folder.glob("*.log"))}


def tracebacks(folder: Path) -> list[str]:
    """Return the last line of each traceback in the logs: no fault of others may cause one."""
    found = []
    for file in sorted(folder.glob("*.log")):
        within = False
        for line in file.read_text(errors="replace").splitlines():
            if line.startswith("Traceback (most recent call last)"):
                within = True
            elif within and not line.startswith(" "):
                within = False
                found.append(f"{file.stem}: {line}")
    return found


def files_of(tested: TestedMesh) -> dict[str, int]:
    """Return how many files each program has where it writes."""
    return {
        name: sum(1 for _ in (_folder(tested, name)).rglob("*")) for name in sorted(tested.parts)
    }


def _folder(tested: TestedMesh, name: str) -> Path:
    return tested.mesh.state.ca if name == "control plane" else tested.agent(name).spec.directory


def left_behind(folder: Path, shared_memory: set[Path]) -> list[str]:
    """Say what is left once all has ended: processes, sockets, parts of files, shared memory."""
    leftovers = [f"shared memory {file}" for file in sorted(shared_memory) if file.exists()]
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if Path(process.cwd()).is_relative_to(folder):
                leftovers.append(f"the process {process.pid}, {' '.join(process.cmdline()[:4])}")
    leftovers += [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.is_socket() or path.suffix == ".part" or path.name.startswith("base-id")
    ]
    return leftovers


def per_minute(
    before: Mapping[str, int], after: Mapping[str, int], seconds: float
) -> dict[str, float]:
    """Return how many lines a minute came to each log."""
    return {name: 60 * (after[name] - before.get(name, 0)) / seconds for name in sorted(after)}
