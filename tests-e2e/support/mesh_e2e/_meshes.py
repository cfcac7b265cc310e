"""Meshes of real processes and real Envoys, each with its own state and addresses."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from textwrap import dedent

from mesh_e2e._machine import last_words
from mesh_local import (
    MeshPlan,
    NotReady,
    OnExit,
    RunningMesh,
    StateFolder,
    parse_mesh_file,
    prepared,
    running_mesh,
)
from mesh_testkit import PATIENCE_S

ECHO = Path(__file__).parents[2] / "apps" / "echo.py"


@asynccontextmanager
async def mesh_of(
    text: str,
    directory: Path,
    *,
    on_exit: OnExit = OnExit.LEAVE,
    environ: Mapping[str, str] | None = None,
    beside: Callable[[MeshPlan, StateFolder], AbstractContextManager[None]] | None = None,
) -> AsyncIterator[RunningMesh]:
    """Run the mesh that a mesh file's text describes; `ECHO` in it is the echo program.

    environ: the environment to give on; this process's own by default.
    beside: entered when the state folder is there, before anything starts; left after all ended.
    """
    text = dedent(text).replace("ECHO", f"[{sys.executable}, {ECHO}]")
    file = parse_mesh_file(text, path=directory / "mesh.yaml")
    with (
        prepared(file, directory / "state") as (plan, state),
        nullcontext() if beside is None else beside(plan, state),
    ):
        try:
            async with running_mesh(plan, state, on_exit=on_exit, environ=environ) as mesh:
                try:
                    await mesh.wait_ready(PATIENCE_S)
                    yield mesh
                except BaseException as error:
                    error.add_note(_state_of(mesh))
                    raise
        except NotReady as error:
            error.add_note(last_words([error.log]))
            raise


def _state_of(mesh: RunningMesh) -> str:
    """What a failure may have come from."""
    children = (f"{each.spec.name}: {each.state}, {each.last_exit}" for each in mesh.children)
    statuses = (f"{each.instance.name}: {each.status}" for each in mesh.workloads)
    logs = dict.fromkeys(each.spec.log for each in mesh.children)
    return "\n".join((*children, *statuses, last_words(logs)))


async def run_command(
    *arguments: str, environment: Mapping[str, str], directory: Path, timeout_s: float = PATIENCE_S
) -> tuple[int, str, str]:
    """Run one of the commands (`mesh_agent`, ...) to its end: status, output, errors."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        *arguments,
        env=dict(environment),
        cwd=directory,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(timeout_s):
            output, errors = await process.communicate()
    except TimeoutError:
        process.kill()
        output, errors = await process.communicate()
        raise AssertionError(
            f"{arguments} took longer than {timeout_s:g} s, and said {output!r} and {errors!r}"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    return process.returncode or 0, output.decode(), errors.decode()
