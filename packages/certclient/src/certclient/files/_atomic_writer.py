"""Several files that change as one: a directory a generation, and a link that is renamed.

The layout is the one Kubernetes gives mounted secrets. What watches for those finds it familiar:

    cert-chain.pem -> ..data/cert-chain.pem
    ..data -> ..generation-x7f3
    ..generation-x7f3/cert-chain.pem
"""

import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from certclient.files._output_files import CURRENT, holds

_CURRENT = CURRENT
_PREFIX = "..generation-"


def write_generation(
    directory: Path, contents: Mapping[str, bytes], *, mode: int
) -> tuple[str, ...]:
    """Make `contents` the files of `directory`, all at one moment; return the names that changed.

    The generation before stays until the next, for readers that are on their way through it.
    Raises OSError; then what was there before still is.
    """
    current = directory / _CURRENT
    changed = tuple(
        name for name, content in contents.items() if not holds(current / name, content)
    )
    before = _target(current)
    if not changed:
        for name in contents:
            (current / name).chmod(mode)
    else:
        generation = Path(tempfile.mkdtemp(dir=directory, prefix=_PREFIX))
        try:
            _fill(generation, contents, mode)
            _link(current, generation.name)
        except BaseException:
            shutil.rmtree(generation, ignore_errors=True)
            raise
        _remove_others(directory, keep={generation.name, before})
    for name in contents:
        if _target(directory / name) != f"{_CURRENT}/{name}":
            _link(directory / name, f"{_CURRENT}/{name}")
    return changed


def remove_generations(directory: Path) -> None:
    """Leave no generation, and so no key in one, where files are no longer written so.

    A link `..data` to anything else is somebody else's.
    """
    if (_target(directory / _CURRENT) or "").startswith(_PREFIX):
        (directory / _CURRENT).unlink()
        _remove_others(directory, keep=set())


def _fill(generation: Path, contents: Mapping[str, bytes], mode: int) -> None:
    for name, content in contents.items():
        path = generation / name
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        path.chmod(mode)
    if mode & 0o077:
        # Files that others may read are of no use in a directory that they may not enter.
        generation.chmod(0o755)


def _link(path: Path, target: str) -> None:
    """Make `path` a link, in place of whatever file or link it was."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.link")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    try:
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _remove_others(directory: Path, keep: set[str | None]) -> None:
    for path in directory.glob(f"{_PREFIX}*"):
        if path.name not in keep:
            shutil.rmtree(path, ignore_errors=True)


def _target(path: Path) -> str | None:
    with suppress(OSError):
        return str(path.readlink())
    return None
