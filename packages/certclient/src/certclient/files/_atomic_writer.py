"""Changes several files at one moment: each generation is a directory, and one link is renamed.

The layout is that of Kubernetes' mounted secrets, which programs know how to watch:

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

from certclient.files._plain_writer import has_content

_CURRENT = "..data"
"""The link to the newest generation."""
_PREFIX = "..generation-"


def write_generation(
    directory: Path, contents: Mapping[str, bytes], *, mode: int
) -> tuple[str, ...]:
    """Replace the files of `directory` at one moment; return the names whose content changed.

    The generation before stays until the next, for readers that have resolved the link to it.
    Raises OSError; the files are then unchanged.
    """
    current = directory / _CURRENT
    changed = tuple(
        name for name, content in contents.items() if not has_content(current / name, content)
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
    """Remove all generations, and the keys in them, when files are no longer written this way.

    A link `..data` that leads to anything else is another program's and stays.
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
        # Users who may read the files must be able to enter their directory.
        generation.chmod(0o755)


def _link(path: Path, target: str) -> None:
    """Make `path` a link, replacing a file or link of that name."""
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
