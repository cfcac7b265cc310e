"""Reads a folder of YAML files once, for a linter, an editor or a step of CI."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from istio_config._file_content import FileContent, read_content, unreadable
from istio_config._snapshot import Snapshot
from istio_config._tree import read_tree
from istio_config._whole import whole_of
from mesh_configfile import MAX_BYTES, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The objects of a folder's files, and what is wrong with them.

    snapshot: the objects; an object with mistakes is there with what is right in it. problems: the
    mistakes, by file and line. notes: objects and fields that have no effect. warnings: fields
    whose effect is probably not meant.
    """

    snapshot: Snapshot
    files: tuple[str, ...]
    problems: tuple[Problem, ...]
    notes: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


def read_folder(directory: Path, *, allow_unsupported: bool = False) -> Configuration:
    """Read all `.yaml` and `.yml` files of a folder and the folders in it; raises nothing.

    A file or a folder that can't be read is one of `problems`. allow_unsupported: fields
    that only Istio acts on are notes, not mistakes.
    """
    unlisted: list[Problem] = []
    files = read_tree(directory, problems=unlisted, reach=_ignore).files
    contents = [_read(each, allow_unsupported=allow_unsupported) for each in files]
    whole = whole_of(contents)
    found = (problem for content in contents for problem in content.problems)
    return Configuration(
        snapshot=whole.snapshot,
        files=tuple(files),
        problems=tuple(sorted({*unlisted, *found, *whole.duplicates})),
        notes=whole.snapshot.notes,
        warnings=tuple(warning for content in contents for warning in content.warnings),
    )


def _ignore(path: str) -> None:
    """Do nothing: a folder that is read once has no watchdog that names where reading hangs."""


def _read(path: str, *, allow_unsupported: bool) -> FileContent:
    try:
        # Before it is opened: a FIFO would wait for a writer, and a device may act.
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - as a name of `read_tree`
            return unreadable(path, "is no regular file")
        with open(path, "rb") as file:  # noqa: PTH123
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        return unreadable(path, f"can't be read: {error.strerror}")
    if len(data) > MAX_BYTES:
        return unreadable(path, f"is larger than {MAX_BYTES} bytes, the most that is read")
    return read_content(data, file=path, allow_unsupported=allow_unsupported)
