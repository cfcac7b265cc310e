"""Flags that only Envoys of some releases have."""

import mmap
import subprocess
from pathlib import Path

_TIMEOUT_S = 5.0


def has_flag(binary: Path, flag: str) -> bool:
    """Return whether this Envoy knows a flag; runs it if its file does not tell, as a script's."""
    return names_flag(binary, flag) or _help_has(binary, flag)


def names_flag(binary: Path, flag: str) -> bool:
    """Return whether the file of an Envoy has the name of a flag in it.

    That takes some milliseconds, where running it for its help takes a hundred.
    """
    try:
        with (
            binary.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            return content.find(flag.lstrip("-").encode()) >= 0
    except (OSError, ValueError):  # there is no such file, or it is empty
        return False


def _help_has(binary: Path, flag: str) -> bool:
    try:
        done = subprocess.run(
            [str(binary), "--help"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return flag.encode() in done.stdout
