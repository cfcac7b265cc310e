"""Follows the mesh file while the mesh runs: each new content is applied, the newest last.

The file is watched before it is read, so that no change is lost; of several changes in a short
time the last one counts. A content that can't be applied is reported until one can, and
tried again: the reason may be elsewhere, such as a program that is not there yet.
"""

import logging
from collections.abc import Callable
from functools import partial

from mesh_configfile import MAX_BYTES, Problem
from mesh_filewatch import fetch_bytes, run_in_thread, watching
from mesh_local._errors import MeshFileError, MeshLocalError
from mesh_local._running_mesh import RunningMesh
from mesh_local.config._edit import Edit
from mesh_local.config._mesh_file import MeshFile, parse_mesh_file
from mesh_local.lifetime._replicas import Replicas

log = logging.getLogger("mesh_local")

_TRY_AGAIN_S = 2.0


async def follow_mesh_file(
    mesh: RunningMesh, replicas: Replicas, *, on_edit: Callable[[Edit], None]
) -> None:
    """Have the mesh become what its file says, whenever the file changes; never returns.

    on_edit: called with each edit that was applied and has an effect. What keeps a content from
    being applied stands in `mesh.file_problems`.
    """
    following = _Following(mesh, replicas, on_edit)
    async with watching() as watch:
        while True:
            await watch.follow([following.path])
            is_applied = await following.look()
            await watch.wait(None if is_applied else _TRY_AGAIN_S)


class _Following:
    """The file, and which content of it the mesh has."""

    def __init__(
        self, mesh: RunningMesh, replicas: Replicas, on_edit: Callable[[Edit], None]
    ) -> None:
        self.path = mesh.plan.file.path
        self._mesh = mesh
        self._replicas = replicas
        self._on_edit = on_edit
        self._applied: MeshFile | None = mesh.plan.file
        """None after an attempt that failed, of which something may be left."""
        self._kept: tuple[str, ...] = ()
        """Sentences about settings in it that can't change."""

    async def look(self) -> bool:
        """Read the file and apply it, if it is another one; return whether the mesh has it."""
        try:
            file = await self._read()
            if file != self._applied:
                await self._apply(file)
        except MeshLocalError as error:
            self._tell(tuple(str(error).splitlines()))
            return False
        self._tell(self._kept)
        return True

    async def _read(self) -> MeshFile:
        try:
            data = await fetch_bytes(self.path, max_bytes=MAX_BYTES)
            parsing = partial(parse_mesh_file, data, path=self.path)
            # It looks whether the directories are there that the file names.
            return await run_in_thread(parsing, path=self.path)
        except OSError as error:
            message = f"can't be read, and the mesh runs on as it was: {error.strerror}"
            problem = Problem(file=str(self.path), line=1, message=message)
            raise MeshFileError(self.path, [problem]) from None

    async def _apply(self, file: MeshFile) -> None:
        self._applied = None
        edit = await self._replicas.apply(file)
        self._applied, self._kept = file, tuple(map(str, edit.kept))
        if edit.changes_processes or edit.updated:
            self._on_edit(edit)

    def _tell(self, problems: tuple[str, ...]) -> None:
        for each in problems:
            if each not in self._mesh.file_problems:
                log.warning("mesh file is not in effect as it is", extra={"reason": each})
        if self._mesh.file_problems and not problems:
            log.info("mesh file is in effect", extra={"file": str(self.path)})
        self._mesh.file_problems = problems
