"""Makes random meshes and asks Envoys whether they take all that proxies would be given.

    python bench/random_meshes.py --examples 1000 --envoys installed,1.36

Prints each kind of fault once, with how often it came, and writes the smallest mesh that has it.
"""

import argparse
import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from drawn_meshes import Mesh, envoy_says, faults, loaded, meshes
from mesh_testkit.envoys import find_envoy


@dataclass
class Found:
    """The faults so far: how often each kind came, and the smallest mesh of each."""

    directory: Path
    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, tuple[str, str]] = field(default_factory=dict)

    def add(self, fault: str, mesh: Mesh) -> None:
        # Faults that differ in names and numbers only are of one kind.
        kind = re.sub(r"'[^']*'|\[[^\]]*\]|[0-9]+", "*", fault)[-300:]
        self.counts[kind] += 1
        known = self.examples.get(kind)
        if known is None or len(mesh.yaml) < len(known[1]):
            self.examples[kind] = (fault, mesh.yaml)

    def tell(self) -> None:
        for index, (kind, count) in enumerate(self.counts.most_common()):
            fault, yaml = self.examples[kind]
            file = self.directory / f"mesh-{index}.yaml"
            file.write_text(yaml)
            print(f"{count} times: {fault[-1500:]}\n    {file}")


def faults_of(mesh: Mesh, envoys: list[Path]) -> Iterator[str]:
    context, problems = loaded(mesh.yaml)
    yield from map(str, problems)
    for node in mesh.nodes:
        yield from faults(context, node)
        for binary in envoys:
            if said := envoy_says(binary, context, node):
                yield f"{binary}: {node.id}: {said}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--examples", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--envoys", default="installed", help="versions, empty: none is asked")
    options = parser.parse_args()
    envoys = [find_envoy(version) for version in options.envoys.split(",") if version]
    found = Found(Path(tempfile.mkdtemp(prefix="meshes-")))
    drawn, objects, good = 0, 0, 0

    @seed(options.seed)
    @settings(
        max_examples=options.examples,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(mesh=meshes())
    def compare_with_envoy(mesh: Mesh) -> None:
        nonlocal drawn, objects, good
        drawn += 1
        objects += len(mesh.documents)
        try:
            wrong = list(faults_of(mesh, envoys))
        except Exception:  # noqa: BLE001 - whatever it is, it is a fault
            wrong = [traceback.format_exc()]
        for fault in wrong:
            found.add(fault, mesh)
        good += not wrong

    began = time.perf_counter()
    compare_with_envoy()
    found.tell()
    print(
        f"{good} of {drawn} meshes ({objects} objects) without a fault, "
        f"{time.perf_counter() - began:.0f} s"
    )
    return 0 if good == drawn else 1


if __name__ == "__main__":
    sys.exit(main())
