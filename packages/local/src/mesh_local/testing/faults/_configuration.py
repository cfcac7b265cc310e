"""Documents that a test gives the control plane, and the wait until all proxies have them.

A document is a file of the state folder's configuration, which the control plane follows. It tells
which files it has read, and of each proxy whether anything waits for it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from mesh_local._errors import ConfigurationError, FaultError, NoAnswer, NotReady
from mesh_local._running_mesh import RunningMesh, RunningWorkload
from mesh_local.observation._agent_status import fetch_status
from mesh_local.observation._control_plane_pages import fetch_page, lags
from mesh_local.observation._envoy_clusters import ADMIN_PORT
from mesh_local.observation._http import MAX_BODY_BYTES, fetch
from mesh_local.processes._children import ChildState
from mesh_local.state._folder import write_file

FOLDER = "in-tests"
WITHIN_S = 30.0
_POLL_S = 0.03
_MOST_DUMP_BYTES = 64 * MAX_BODY_BYTES


class Configuration:
    """The documents that tests have given a running mesh, by the names of their files."""

    def __init__(self, mesh: RunningMesh) -> None:
        self._mesh = mesh
        self._folder = mesh.state.config / FOLDER
        self._changing = asyncio.Lock()
        self._numbers = iter(range(1, 1_000_000))

    def new_name(self, purpose: str) -> str:
        """Return a name that nothing has had before."""
        return f"{purpose}-{next(self._numbers)}"

    async def put(self, name: str, documents: str, *, instead_of: str | None = None) -> None:
        """Write a file of YAML; returns when every running proxy has accepted what follows.

        instead_of: a file that is removed at the same time. `name` must be new: which
        content of a changed file the control plane has read could not be known. Raises
        `ConfigurationError` if they are wrong, in which case they are taken back.
        """
        self._refuse_without_control_plane()
        path = self._path(name)
        async with self._changing:
            write_file(path, documents)
            if instead_of is not None:
                self._path(instead_of).unlink(missing_ok=True)
            try:
                await self._until(lambda: self._is_read(path), "the control plane has not read it")
                await self._until_settled()
            except ConfigurationError:
                path.unlink(missing_ok=True)
                await self._until(lambda: self._is_gone(path), "the control plane still has it")
                raise

    async def remove(self, name: str) -> None:
        """Remove a file; returns when no proxy has anything of it."""
        path = self._path(name)
        async with self._changing:
            path.unlink(missing_ok=True)
            self._refuse_without_control_plane()
            await self._until(lambda: self._is_gone(path), "the control plane still has it")
            await self._until_settled()

    async def until_envoy_shows(
        self, workload: RunningWorkload, resource: str, mark: str, *, shown: bool
    ) -> None:
        """Wait until an Envoy's own dump of its active resources has a mark, or has it no more."""
        host = workload.instance.addresses.agent
        target = f"/config_dump?resource={resource}"

        async def is_so() -> bool:
            try:
                answer = await fetch(
                    host, ADMIN_PORT, target=target, timeout_s=5.0, max_bytes=_MOST_DUMP_BYTES
                )
            except NoAnswer:
                return not runs(workload)
            return answer.status == 200 and (f'"{mark}"' in answer.body) is shown

        await self._until(is_so, f"the Envoy of {workload.instance.name} does not use it")

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.yaml"

    def _refuse_without_control_plane(self) -> None:
        if self._mesh.control_plane.state is not ChildState.RUNNING:
            raise FaultError("the control plane does not run: without it no Envoy hears of a rule")

    async def _is_read(self, path: Path) -> bool:
        page = await self._page("/debug/configz")
        files = {each["file"] for each in page["objects"]}
        problems = [each for each in page["problems"] if str(path) in each]
        if problems:
            raise ConfigurationError(
                "\n".join(each.replace(str(path), "documents") for each in problems)
            )
        return str(path) in files

    async def _is_gone(self, path: Path) -> bool:
        page = await self._page("/debug/configz")
        wrong = any(str(path) in each for each in page["problems"])
        return not wrong and all(each["file"] != str(path) for each in page["objects"])

    async def _until_settled(self) -> None:
        await self._until(self._is_settled, "not every proxy has it")

    async def _is_settled(self) -> bool:
        """Return whether every running proxy has accepted all that there is for it."""
        clients = await self._page("/debug/syncz")
        if any(lags(client) for client in clients):
            return False
        connected = {client["proxy"] for client in clients}
        for each in self._mesh.workloads:
            if runs(each) and each.instance.full_name not in connected:
                return False
        for client in clients:
            for kind, status in client["types"].items():
                if (nack := status["nack"]) is not None:
                    raise ConfigurationError(
                        f"{client['proxy']} refuses its {kind}: {nack['message']}"
                    )
        return await self._nothing_warms()

    async def _nothing_warms(self) -> bool:
        found = await asyncio.gather(
            *(
                fetch_status(each.instance.addresses.agent)
                for each in self._mesh.workloads
                if runs(each)
            )
        )
        return all(status is not None and not status.warming for status in found)

    async def _page(self, target: str) -> Any:
        return await fetch_page(self._mesh.plan, target)

    async def _until(self, holds: Callable[[], Awaitable[bool]], otherwise: str) -> None:
        try:
            async with asyncio.timeout(WITHIN_S):
                while not await _answered(holds):  # noqa: ASYNC110 - other processes are asked
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            log = self._mesh.control_plane.spec.log
            raise NotReady(f"{otherwise} after {WITHIN_S:g} s", log=log) from None


async def _answered(holds: Callable[[], Awaitable[bool]]) -> bool:
    try:
        return await holds()
    except NoAnswer:  # it starts again, or is busy
        return False


def runs(workload: RunningWorkload) -> bool:
    """Return whether a workload's agent is there to have configuration."""
    return workload.agent.state is not ChildState.ENDED
