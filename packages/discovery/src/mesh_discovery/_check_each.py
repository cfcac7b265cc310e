"""Checks the folders of a directory one by one: alternatives, of which a mesh has one at a time.

The files in the directory itself are common to all of them.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path

from istio_config import FileContent, read_content, unreadable
from mesh_configfile import MAX_BYTES, Problem
from mesh_discovery._check import Checked
from mesh_discovery._config_error import ConfigError
from mesh_filewatch import read_bytes


def check_each(
    directory: Path,
    check: Callable[[Path, Sequence[Path]], Checked],
    *,
    beside: Sequence[Path] = (),
    allow_unsupported: bool = False,
) -> Checked:
    """Return what is found in each folder by itself, as one result.

    check: checks a folder, beside others. beside: files and directories of the same mesh. Raises
    `ConfigError` if there is no folder.
    """
    try:
        entries = sorted(each for each in directory.iterdir() if not each.name.startswith("."))
    except OSError as error:
        raise _wrong(directory, f"can't be read: {error.strerror}") from error
    folders = [each for each in entries if each.is_dir()]
    if not folders:
        raise _wrong(directory, "has no folders that could be checked one by one")
    common = [each for each in entries if each.suffix in (".yaml", ".yml") and not each.is_dir()]
    contents = {path: _read(path, allow_unsupported=allow_unsupported) for path in common}
    near = [path for path, content in contents.items() if content.objects or content.rest]
    found = [check(each, (*beside, *near)) for each in folders]
    return Checked(
        objects=sum(each.objects for each in found),
        files=sum(each.files for each in found),
        problems=_all(
            (*(each.problems for each in contents.values()), *(each.problems for each in found))
        ),
        unreachable=_all(each.unreachable for each in found),
        notes=_all(each.notes for each in found),
        warnings=_all(each.warnings for each in found),
        missing=_all(each.missing for each in found),
        hints=_all(each.hints for each in found),
        objects_at=tuple(chain.from_iterable(each.objects_at for each in found)),
        unjudged=sum(each.unjudged for each in found),
    )


def _all(found: Iterable[tuple[Problem, ...]]) -> tuple[Problem, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(found)))


def _read(path: Path, *, allow_unsupported: bool) -> FileContent:
    try:
        data = read_bytes(path, max_bytes=MAX_BYTES)
    except OSError as error:
        return unreadable(str(path), f"can't be read: {error.strerror}")
    return read_content(data, file=str(path), allow_unsupported=allow_unsupported)


def _wrong(path: Path, message: str) -> ConfigError:
    return ConfigError([Problem(file=str(path), line=1, message=message)])
