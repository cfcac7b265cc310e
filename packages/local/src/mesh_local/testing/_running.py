"""Runs a mesh for as long as a block lasts: `async with running(...)`, or `with running(...)`."""

import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from mesh_local._errors import NotReady, ProcessEnded
from mesh_local.config._mesh_file import MeshFile, load_mesh_file
from mesh_local.lifetime._mesh import prepared, running_mesh
from mesh_local.processes._children import last_lines
from mesh_local.testing._blocking import BlockingMesh, MeshThread
from mesh_local.testing._described import Workload, described_mesh
from mesh_local.testing._mesh import Mesh
from mesh_local.testing._mesh_task import MeshTask

READY_S = 60.0

Description: TypeAlias = str | os.PathLike[str] | MeshFile | Iterable[Workload]
"""The path of a mesh file, one that was read, or workloads."""


def running(
    mesh: Description,
    *,
    settings: Mapping[str, Any] | None = None,
    config: Sequence[Mapping[str, Any]] = (),
    state_dir: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
    ready_s: float = READY_S,
    allow_unsupported: bool = False,
) -> "Running":
    """Return a mesh to enter with `async with` or `with`; every workload is ready in the block.

    settings, config: for workloads, what a file has below `mesh` and `config`. state_dir: where
    keys and logs are; a temporary folder that goes with the block if None. environ: what the
    programs get; this process's own by default, with its Python first in PATH. ready_s:
    how long to wait until all is ready. allow_unsupported: accept configuration that Istio has and
    this mesh does not have yet.

    Raises on entering: `MeshFileError`, `ConfigurationError`, `AddressError`, `StateError`;
    `NotReady` with the last lines of the log as a note, also if a process ends meanwhile.
    """
    return Running(
        _Wanted(
            mesh=mesh,
            settings=settings or {},
            config=config,
            state_dir=None if state_dir is None else Path(state_dir),
            environ=environ,
            ready_s=ready_s,
            allow_unsupported=allow_unsupported,
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    mesh: Description
    settings: Mapping[str, Any]
    config: Sequence[Mapping[str, Any]]
    state_dir: Path | None
    environ: Mapping[str, str] | None
    ready_s: float
    allow_unsupported: bool


class Running:
    """The return value of `running`: a mesh that starts when its block is entered."""

    def __init__(self, wanted: _Wanted) -> None:
        self._wanted = wanted
        self._task: MeshTask | None = None
        self._thread: MeshThread | None = None

    async def __aenter__(self) -> Mesh:
        self._task = MeshTask(_mesh_of(self._wanted))
        return await self._task.start()

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            await self._task.stop()

    def __enter__(self) -> BlockingMesh:
        self._thread = MeshThread(_mesh_of(self._wanted))
        return self._thread.start()

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            self._thread.stop()


@asynccontextmanager
async def _mesh_of(wanted: _Wanted) -> AsyncIterator[Mesh]:
    with (
        _folder(wanted.state_dir) as folder,
        prepared(_file(wanted), folder) as (plan, state),
    ):
        try:
            async with running_mesh(
                plan,
                state,
                environ=_environment(wanted),
                allow_unsupported=wanted.allow_unsupported,
            ) as processes:
                await processes.wait_ready(wanted.ready_s, or_any_ended=True)
                mesh = Mesh(processes)
                yield mesh
                await mesh.end_faults()
        except (NotReady, ProcessEnded) as error:
            # The log may be gone with its folder before anybody reads it.
            error.add_note(_last_words(error.log))
            raise


def _environment(wanted: _Wanted) -> Mapping[str, str]:
    """Return what programs get: `python3` is the Python that runs the tests, with its packages."""
    if wanted.environ is not None:
        return wanted.environ
    own = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": os.pathsep.join((own, os.environ.get("PATH", os.defpath)))}


def _file(wanted: _Wanted) -> MeshFile:
    if isinstance(wanted.mesh, MeshFile):
        return wanted.mesh
    if isinstance(wanted.mesh, str | os.PathLike):
        return load_mesh_file(Path(wanted.mesh))
    return described_mesh(wanted.mesh, settings=wanted.settings, config=wanted.config)


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="mesh-local-") as folder:
        yield Path(folder, "state")


def _last_words(log: Path) -> str:
    lines = last_lines(log)
    if not lines:
        return f"{log.name} is empty"
    return "\n".join((f"the last lines of {log.name}:", *(f"  {line}" for line in lines)))
