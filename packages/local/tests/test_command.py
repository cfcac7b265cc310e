import asyncio
import json
import sys
from pathlib import Path

import pytest

from mesh_testkit import small_disk

ONE = "workloads:\n  - name: a\n"


async def run(*arguments: str) -> tuple[int, str]:
    """Run the command as users do, and return its exit status and errors."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "mesh_local",
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await process.communicate()
    return process.returncode or 0, errors.decode()


async def findings(file: Path) -> tuple[int, object]:
    """Run `check -o json`; return its exit status and what it prints."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mesh_local", "check", file, "-o", "json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert errors == b""
    return process.returncode or 0, json.loads(output)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("workloads: ]", "mesh.yaml:1: not valid YAML"),
        ("workloads:\n  - nam: a\n", "mesh.yaml:2: workloads[0].nam: unknown field; did you mean"),
        (
            "workloads:\n  - {name: a, command: [no-such-program]}\n",
            'mesh.yaml:2: workloads[0].command: there is no program "no-such-program"',
        ),
    ],
)
async def test_a_mistake_in_the_file_is_one_sentence(
    tmp_path: Path, text: str, sentence: str
) -> None:
    file = tmp_path / "mesh.yaml"
    file.write_text(text)
    status, errors = await run("up", str(file), "--once", "--state-dir", str(tmp_path / "state"))
    assert status == 1
    assert errors.startswith("mesh-local: ")
    assert sentence in errors
    assert len(errors.splitlines()) == 1


async def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    status, errors = await run("up", str(tmp_path / "none.yaml"))
    assert (status, len(errors.splitlines())) == (1, 1)
    assert "none.yaml:1: can't be read: No such file" in errors


async def test_two_runs_with_one_state_folder_are_refused(tmp_path: Path) -> None:
    from mesh_local.state._folder import opened

    file = tmp_path / "mesh.yaml"
    file.write_text(ONE)
    with opened(tmp_path / "state"):
        status, errors = await run("up", str(file), "--state-dir", str(tmp_path / "state"))
    assert status == 1
    assert "another mesh-local runs with the state folder" in errors


@pytest.mark.parametrize("how", ["full", "read-only"])
async def test_a_state_folder_that_cannot_be_written_is_one_sentence(
    how: str, tmp_path: Path
) -> None:
    file = tmp_path / "mesh.yaml"
    file.write_text(ONE)
    with small_disk(tmp_path / "disk") as disk:
        if how == "full":
            disk.fill()
        else:
            disk.make_read_only()
        state = disk.path / "state"
        status, errors = await run("up", str(file), "--once", "--state-dir", str(state))
    reason = "No space left on device" if how == "full" else "Read-only file system"
    assert (status, len(errors.splitlines())) == (1, 1)
    assert f"the state folder {state} can't be" in errors
    assert reason in errors
    assert "None" not in errors


async def test_the_version_is_printed() -> None:
    status, errors = await run("version")
    assert (status, errors) == (0, "")


async def test_check_tells_programs_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "mesh.yaml"
    nothing: dict[str, list[str]] = {
        name: [] for name in ("problems", "unreachable", "notes", "warnings")
    }
    file.write_text(ONE)
    assert await findings(file) == (0, {"workloads": 1, **nothing})
    file.write_text("workloads:\n  - nam: a\n")
    status, found = await findings(file)
    assert status == 1
    assert isinstance(found, dict)
    (problem,) = found.pop("problems")
    assert "mesh.yaml:2: workloads[0].nam: unknown field" in problem
    assert found == {"workloads": 0, "unreachable": [], "notes": [], "warnings": []}
