"""Run mypy over the repository, one part at a time.

Tests of different packages have modules of the same name (conftest), which one run of mypy cannot
tell apart; the parts share a cache.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import envoy_stubs
from workspace import ROOT, distributions


def parts() -> list[list[Path]]:
    """Return the paths of each run: a distribution's folders, then the rest."""
    chosen = [
        [each.folder / name for name in ("src", "tests", "bench", "fuzz")]
        for each in distributions()
    ]
    chosen += [[ROOT / "tests-e2e"], [ROOT / "tools", ROOT / "noxfile.py"], [ROOT / "bench"]]
    return [found for part in chosen if (found := [path for path in part if holds_python(path)])]


def holds_python(path: Path) -> bool:
    """Return whether mypy would find something to check there."""
    return path.is_file() or next(path.rglob("*.py"), None) is not None


def main(arguments: list[str]) -> int:
    """Check every part, also after one failed; return 1 if any did."""
    envoy_stubs.main(ROOT)
    failed = []
    for part in parts():
        names = [str(path.relative_to(ROOT)) for path in part]
        command = [sys.executable, "-m", "mypy", *arguments, *names]
        print(f"mypy {' '.join(names)}", flush=True)
        if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
            failed.append(names[0])
    if failed:
        print(f"types: failed in {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
