"""Room on the disks that the agent writes to: looked at on real file systems."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from mesh_doctor import (
    Cause,
    DoctorConfig,
    Finding,
    HttpPlace,
    Status,
    WrittenDirectory,
    as_text,
    examine,
)
from mesh_testkit import hanging_mount, small_disk

ABSENT = HttpPlace(host="127.0.0.1", port=9, path="/debug/status")


async def disk(*directories: Path, timeout_s: float = 3.0) -> list[Finding]:
    config = DoctorConfig(
        agent=ABSENT,
        directories=tuple(
            WrittenDirectory(path=each, use="saved configuration") for each in directories
        ),
        timeout_s=timeout_s,
    )
    return [each for each in await examine(config) if each.check == "disk"]


async def test_a_full_disk_is_a_problem_until_there_is_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as small:
        directory = tmp_path / "disk" / "state" / "not-there-yet"
        (well,) = await disk(directory)
        assert (well.status, well.cause) == (Status.OK, None)
        small.fill()
        (full,) = await disk(directory, tmp_path)
        assert (full.status, full.cause) == (Status.PROBLEM, Cause.DISK_FULL)
        assert full.said == f"{directory} (saved configuration) is on a full disk: 0 bytes free"
        assert "No problem was found" not in as_text([full])
        small.free()
        (again,) = await disk(directory)
        assert again.status is Status.OK


async def test_a_full_disk_is_one_problem_of_all_directories_on_it(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as small:
        first, second = tmp_path / "disk" / "state", tmp_path / "disk" / "sockets"
        small.fill()
        (full,) = await disk(first, tmp_path, second)
    assert (full.status, full.cause) == (Status.PROBLEM, Cause.DISK_FULL)
    assert full.said == (
        f"{first} (saved configuration), {second} (saved configuration) are on a full disk: "
        "0 bytes free"
    )


async def test_a_read_only_disk_is_a_problem(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as small:
        small.make_read_only()
        (found,) = await disk(tmp_path / "disk")
        assert found.cause is Cause.DISK_READ_ONLY


async def test_a_disk_that_does_not_answer_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "hangs").mkdir()
    with hanging_mount(tmp_path / "hangs") as hanging:
        (found,) = await disk(Path(hanging), timeout_s=0.2)
    assert found.cause is Cause.DISK_SILENT


async def test_without_directories_nothing_is_said() -> None:
    assert await disk() == []


@pytest.mark.parametrize(
    "document",
    [
        {"xds": {"saved": {"problem": "No space left on device"}}},
        {"learned_roots": {"problem": "No space left on device"}},
    ],
)
def test_what_the_agent_could_not_save_is_reported(document: Mapping[str, object]) -> None:
    from mesh_doctor._observed import Observed, SeenPage
    from mesh_doctor.checks._disks import disks

    seen = Observed(now=0.0, agent=SeenPage(document=document, answered=True))
    (found,) = disks(DoctorConfig(agent=ABSENT), seen)
    assert (found.status, found.cause) == (Status.WARNING, Cause.NOT_SAVED)
    assert "No space left on device" in found.said
