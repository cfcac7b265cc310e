"""Flags that only Envoys of some releases have."""

import subprocess
from pathlib import Path

_TIMEOUT_S = 5.0


def has_flag(binary: Path, flag: str) -> bool:
    """Returns whether this Envoy's help names the flag; asks only by running it."""
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
