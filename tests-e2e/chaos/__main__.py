"""A mesh under traffic while everything around it fails; see README.md.

    python tests-e2e/chaos [--seconds 600] [--seed 7] [--only KIND] [-o report.json]

Exits 1 if the books do not balance.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from mesh_chaos._report import as_json, as_text
from mesh_chaos._running import run
from mesh_chaos._schedule import Kind

_OWN_MOUNTS = "MESH_CHAOS_OWN_MOUNTS"


def with_own_mounts() -> None:
    """Become the same program in a mount namespace of its own, so that no mount outlives it."""
    if os.geteuid() != 0 or os.environ.get(_OWN_MOUNTS) or shutil.which("unshare") is None:
        return
    command = [
        *("unshare", "--mount", "--propagation", "private"),
        *(sys.executable, str(Path(__file__).parent), *sys.argv[1:]),
    ]
    os.execvpe(command[0], command, {**os.environ, _OWN_MOUNTS: "1"})  # noqa: S606 - no shell is wanted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=None, help="drawn, and told, if not given")
    parser.add_argument("--only", type=Kind, action="append", default=[], choices=list(Kind))
    parser.add_argument("-o", "--output", type=Path, help="the report as JSON, besides")
    parser.add_argument("--keep", type=Path, help="a new folder for state and logs that stays")
    options = parser.parse_args()
    with_own_mounts()
    seed = random.SystemRandom().randrange(1 << 31) if options.seed is None else options.seed
    sys.stdout.write(f"seed {seed}, {options.seconds:g} s\n")
    sys.stdout.flush()
    with tempfile.TemporaryDirectory(prefix="mesh-chaos-") as temporary:
        directory = options.keep or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        outcome = asyncio.run(
            run(
                directory.absolute(),
                seed=seed,
                seconds=options.seconds,
                only=tuple(options.only),
            )
        )
        report = as_json(outcome)
    if options.output is not None:
        options.output.write_text(json.dumps(report, indent=2) + "\n")
    sys.stdout.write(as_text(outcome) + "\n")
    return 0 if report["balanced"] else 1


if __name__ == "__main__":
    sys.exit(main())
