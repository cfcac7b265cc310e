"""`mesh-agent doctor` names the cause of each trouble, beside real agents and a real control plane.

docs/screens.md, which tests-e2e/make_screens.py writes, shows what all commands print then.
"""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mesh_e2e import TROUBLES, Case, Plane, Workload, own_address, plane, workload

SCREENS = Path(__file__).parents[1] / "docs" / "screens.md"
COMMANDS = SCREENS.with_name("commands.md")
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
        exits = [
            (await workload.run(*words))[0]
            for words in (("status",), ("wait", "--timeoutSeconds", "0"), ("certs",))
        ]
    assert tuple(exits) == case.exits
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


def bare(workload: Workload, elsewhere: Path, **variables: str) -> Workload:
    """A shell without the agent's variables, in another directory."""
    elsewhere.mkdir()
    kept = ("PATH", "HOME", "LANG", "TMPDIR")
    environment = {name: value for name, value in os.environ.items() if name in kept}
    return replace(workload, directory=elsewhere, environment={**environment, **variables})


@pytest.mark.parametrize("by", ["address", "variable"])
async def test_a_shell_without_variables_examines_the_agent_that_answers(
    by: str, control_plane: Plane, tmp_path: Path
) -> None:
    address = own_address(61 + (by == "variable"))
    words = ("--address", address) if by == "address" else ()
    variables = {"MESH_AGENT_BIND_ADDRESS": address} if by == "variable" else {}
    case = next(each for each in TROUBLES if each.cause is None)
    async with case.trouble(control_plane, tmp_path / "agent", address) as workload:
        shell = bare(workload, tmp_path / "shell", **variables)
        status, output, errors = await shell.run("doctor", *words, "--json")
    findings = json.loads(output)["findings"]
    assert (status, errors) == (0, "")
    assert [each for each in findings if each["status"] not in {"ok", "skipped"}] == []
    assert findings[0]["check"] == "examined"
    assert findings[0]["said"] == (
        f"the agent at {address}:15020, as it was started in {tmp_path / 'agent'}"
    )


async def test_a_shell_without_variables_names_the_nack_alone(
    control_plane: Plane, tmp_path: Path
) -> None:
    address = own_address(63)
    case = next(each for each in TROUBLES if each.name == "nack")
    async with case.trouble(control_plane, tmp_path / "agent", address) as workload:
        shell = bare(workload, tmp_path / "shell")
        status, output, _ = await shell.run("doctor", "--address", address, "--json")
    found = json.loads(output)["findings"]
    assert status == 1
    assert [each["cause"] for each in found if each["status"] == "problem"] == ["nack"]


async def test_without_an_agent_the_first_line_says_what_is_examined(
    control_plane: Plane, tmp_path: Path
) -> None:
    address = own_address(64)
    own = workload(control_plane, tmp_path / "agent", address)
    _, output, _ = await own.run("doctor", "--json")
    assert json.loads(output)["findings"][0]["said"] == (
        f"the environment of this shell, in {tmp_path / 'agent'} (no agent tells its "
        f"configuration at {address}:15020)"
    )


@pytest.mark.parametrize("case", TROUBLES, ids=lambda case: case.name)
def test_the_table_has_the_exit_statuses(case: Case) -> None:
    row = next(each for each in COMMANDS.read_text().splitlines() if f"[{case.title}]" in each)
    cells = [each.strip() for each in row.split("|")[2:6]]
    exits = (*case.exits, int(case.cause is not None))
    assert tuple(int(each.split()[0]) for each in cells) == exits


@pytest.mark.parametrize("case", TROUBLES, ids=lambda case: case.name)
def test_the_screens_are_documented(case: Case) -> None:
    section = SCREENS.read_text().partition(f"## {case.title}\n")[2].partition("\n## ")[0]
    for command in ("status", "certs", "doctor"):
        assert f"$ mesh-agent {command}\n" in section
    assert case.cause is None or f"cause: {case.cause}" in section
