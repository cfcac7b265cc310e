"""The figures that users compare, each beside its floor in the same run, and their budgets.

A floor is the bare library under it: a process that imports the libraries alone, a grpc.aio server
with an empty handler. The ratio of ours to it hardly depends on the machine, so that it can be
held: with `--hold`, as the session `budgets` does, a ratio above that of `bench/budgets.toml` is
measured once more, and if it is above again the exit status is 1.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from mesh_testkit.measurements import FIGURES_FILE, Row, exceeded, rows_in

ROOT = Path(__file__).parents[1]
BUDGETS = Path(__file__).with_name("budgets.toml")


class Benchmark(NamedTuple):
    """A script, with the arguments that make it short, and what it has to tell."""

    script: str
    arguments: tuple[str, ...]
    budgets: Mapping[str, float]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hold", action="store_true", help="exit with 1 if a budget is exceeded")
    options = parser.parse_args()
    over = []
    for benchmark in read_budgets(BUDGETS.read_text()):
        wrong = exceeded(run(benchmark), benchmark.budgets)
        if wrong and options.hold:
            print("\n".join(wrong), "measured once more:", sep="\n", flush=True)
            wrong = exceeded(run(benchmark), benchmark.budgets)
        over += wrong
    print("\n".join(over) or "every ratio is within its budget")
    return 1 if over and options.hold else 0


def run(benchmark: Benchmark) -> list[Row]:
    """Run it as a process of its own, which prints its rows."""
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder) / "figures"
        subprocess.run(
            [sys.executable, str(ROOT / benchmark.script), *benchmark.arguments],
            env={**os.environ, FIGURES_FILE: str(figures)},
            check=True,
        )
        return rows_in(figures)


def read_budgets(text: str) -> list[Benchmark]:
    """Read the file of the budgets: a table for each script."""
    return [
        Benchmark(
            script=script,
            arguments=tuple(fields["arguments"]),
            budgets=fields["ratios"],
        )
        for script, fields in tomllib.loads(text).items()
    ]


if __name__ == "__main__":
    sys.exit(main())
