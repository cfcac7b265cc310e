"""Finds the state folder of the mesh that a command is about."""

import os
from collections.abc import Callable
from pathlib import Path

from mesh_local._errors import StateError
from mesh_local.config._mesh_file import A_DIRECTORY
from mesh_local.state._folder import (
    STATE_FOLDERS,
    StateFolder,
    default_state_folder,
    is_running,
    refuse_shared,
)


def find_state(*, file: Path | None, state_dir: Path | None, running: bool = True) -> StateFolder:
    """Return the state folder that these name, or that of the one mesh of the working directory.

    running: of several, only those with which a mesh runs count. Raises `StateError` if there is
    none, there are several, or it belongs to another user.
    """
    if state_dir is not None:
        return _own(state_dir, lambda: f"there is no state folder {state_dir}")
    if file is not None:
        folder = default_state_folder(file)
        return _own(folder, lambda: _without_state(file, folder))
    folders = sorted(each for each in Path(STATE_FOLDERS).glob("*") if each.is_dir())
    found = folders
    if len(folders) > 1:
        found = [each for each in folders if is_running(_own(each))] or ([] if running else folders)
    if not folders or not found:
        raise StateError(
            f"no mesh runs in {Path.cwd()}: name its file, or its state folder with --state-dir"
        )
    if len(found) > 1:
        names = ", ".join(f"{each.name}.yaml" for each in found)
        raise StateError(f"{len(found)} meshes are in {Path.cwd()}, {names}: name one by its file")
    return _own(found[0])


def _without_state(file: Path, folder: Path) -> str:
    # Only now is it looked at: its mount may hang, and a mesh that runs is found without it.
    if os.path.isdir(file):  # noqa: PTH112 - Path.is_dir raises for odd links
        return f"{file}:1: {A_DIRECTORY}"
    return f"the mesh of {file} has not run: there is no state folder {folder}"


def _own(path: Path, missing: Callable[[], str] | None = None) -> StateFolder:
    """Return a folder of this user's, which others can't write; raises `StateError`."""
    folder = path.absolute()
    try:
        folder.lstat()
    except OSError as error:
        message = missing() if missing is not None else f"{folder} can't be read: {error.strerror}"
        raise StateError(message) from None
    refuse_shared(folder)
    return StateFolder(folder)
