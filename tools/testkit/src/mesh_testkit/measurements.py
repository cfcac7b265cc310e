"""Figures of a benchmark, told to a reader and to `bench/bench_table.py`.

A figure is worth something beside another of the same run: a floor, which nothing written in
Python on top of the same libraries can be below, or a peer.
"""

import json
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

FIGURES_FILE = "MESH_BENCH_FIGURES"
"""The environment variable that names a file: `tell` appends its rows there, one JSON a line."""

FLOOR = "floor"


class Row(NamedTuple):
    """One quantity of which less is better, measured in rounds that alternate.

    ours: a value a round. beside: the values of the others, by their names; `FLOOR` is the one that
    budgets are held against.
    """

    what: str
    unit: str
    ours: Sequence[float]
    beside: Mapping[str, Sequence[float]]

    def ratio(self, name: str) -> float:
        """Return the median, over the rounds, of ours divided by the other's."""
        pairs = zip(self.ours, self.beside[name], strict=True)
        return statistics.median(ours / other for ours, other in pairs)

    def __str__(self) -> str:
        """One line: medians, ranges, ratios."""
        columns = [f"{self.what:42} {_spread(self.ours)} {self.unit}"]
        columns += [
            f"{name} {_spread(values)}, ratio {self.ratio(name):.2f}"
            for name, values in self.beside.items()
        ]
        return "   ".join(columns)


def tell(rows: Iterable[Row]) -> None:
    """Print rows; also append them to the file that the environment names, if it does."""
    file = os.environ.get(FIGURES_FILE)
    for row in rows:
        print(row, flush=True)
        if file is not None:
            with Path(file).open("a") as figures:
                figures.write(json.dumps(row._asdict()) + "\n")


def rows_in(file: Path) -> list[Row]:
    """Read the rows that benchmarks appended to a file."""
    return [Row(**json.loads(line)) for line in file.read_text().splitlines()]


def exceeded(rows: Iterable[Row], budgets: Mapping[str, float]) -> list[str]:
    """Return a sentence for each row that takes more of its floor than its budget.

    budgets: the highest ratio, by the row's name. One of which there is no row is told as well.
    """
    found = {row.what: row for row in rows}
    wrong = []
    for what, most in budgets.items():
        if what not in found:
            wrong.append(f"{what}: has a budget, and was not measured")
        elif (ratio := found[what].ratio(FLOOR)) > most:
            wrong.append(f"{what}: {ratio:.2f} times its floor, at most {most:g}")
    return wrong


def _spread(values: Sequence[float]) -> str:
    return f"{_short(statistics.median(values))} ({_short(min(values))}-{_short(max(values))})"


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"
