"""`mesh-agent doctor` names the cause of each trouble, beside real agents and a real control plane.

docs/screens.md, which tests-e2e/make_screens.py writes, shows what all commands print then.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mesh_e2e import TROUBLES, Case, Plane, own_address, plane

SCREENS = Path(__file__).parents[1] / "docs" / "screens.md"
Record = Any


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with plane(tmp_path_factory.mktemp("plane") / "plane", own_address(71)) as running:
        yield running


QUICK = ("well", "missing-token", "port-taken")
"""The troubles that are found in the ordinary tests, too."""


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(each, id=each.name, marks=[] if each.name in QUICK else [pytest.mark.slow])
        for each in TROUBLES
    ],
)
async def test_the_doctor_names_the_cause(
    case: Case, control_plane: Plane, tmp_path: Path, record: Record
) -> None:
    if case.obstacle:
        pytest.skip(case.obstacle)
    address = own_address(81 + TROUBLES.index(case))
    async with case.trouble(control_plane, tmp_path / "agent", address) as workload:
        begun = time.monotonic()
        status, output, errors = await workload.run("doctor", "--json")
        record(f"{case.name}, doctor took", f"{time.monotonic() - begun:.1f} s")
    found = json.loads(output)
    problems = [each for each in found["findings"] if each["status"] == "problem"]
    assert errors == ""
    assert (status, found["healthy"]) == ((0, True) if case.cause is None else (1, False)), problems
    if case.cause is None:
        return
    assert problems[0]["cause"] == case.cause, problems
    assert problems[0]["fix"]
    for words in case.said:
        assert words in problems[0]["said"]


@pytest.mark.parametrize("case", TROUBLES, ids=lambda case: case.name)
def test_the_screens_are_documented(case: Case) -> None:
    section = SCREENS.read_text().partition(f"## {case.title}\n")[2].partition("\n## ")[0]
    for command in ("status", "certs", "doctor"):
        assert f"$ mesh-agent {command}\n" in section
    assert case.cause is None or f"cause: {case.cause}" in section
