"""Reading a folder: whatever is in it, each problem is one of a file, and nothing is raised."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from documents import WEB, document, entry
from istio_config import Configuration, read_folder
from mesh_configfile import MAX_BYTES


def problems(found: Configuration) -> list[tuple[str, str]]:
    """Return the names of files with what is wrong with each."""
    return [(Path(each.file).name, each.message) for each in found.problems]


def names(found: Configuration) -> list[str]:
    return sorted(each.name for each in found.snapshot.objects)


AS_A_STRANGER = """\
import os, sys
from pathlib import Path
from istio_config import read_folder

os.chdir(sys.argv[1])
read_folder(Path("."))  # loads all modules while they can be read
if os.getuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
found = read_folder(Path("."))
print(*found.problems, *(each.name for each in found.snapshot.objects), sep="\\n")
"""


@pytest.fixture
def folder(config_dir: Path) -> Path:
    """A folder with one good file, which is read whatever stands beside it."""
    (config_dir / "good.yaml").write_text(entry("good", WEB))
    return config_dir


def test_a_directory_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    found = read_folder(tmp_path / "none")

    assert problems(found) == [("none", "the config directory does not exist")]
    assert (found.files, found.snapshot.objects) == ((), ())


def test_a_file_in_the_place_of_the_directory_is_a_problem(folder: Path) -> None:
    found = read_folder(folder / "good.yaml")

    assert problems(found) == [("good.yaml", "the config directory is not a directory")]


def test_files_and_folders_that_may_not_be_read_are_problems(folder: Path) -> None:
    folder.chmod(0o755)
    (folder / "secret.yaml").write_text(entry("secret", WEB))
    (folder / "secret.yaml").chmod(0)
    (folder / "closed").mkdir(mode=0)
    try:
        done = subprocess.run(
            [sys.executable, "-c", AS_A_STRANGER, str(folder)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    finally:
        (folder / "closed").chmod(0o700)

    assert done.stdout.splitlines() == [
        "closed:1: can't be read: Permission denied",
        "secret.yaml:1: can't be read: Permission denied",
        "good",
    ]


def test_a_file_whose_reading_fails_is_a_problem(folder: Path) -> None:
    (folder / "failing.yaml").symlink_to("/proc/self/mem")  # its first page is never there

    found = read_folder(folder)

    assert problems(found) == [("failing.yaml", "can't be read: Input/output error")]
    assert names(found) == ["good"]


def test_a_fifo_is_a_problem_and_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe.yaml")

    found = read_folder(folder)

    assert problems(found) == [("pipe.yaml", "is no regular file")]
    assert names(found) == ["good"]


def test_a_device_behind_a_link_is_a_problem(folder: Path) -> None:
    (folder / "zero.yaml").symlink_to("/dev/zero")

    assert problems(read_folder(folder)) == [("zero.yaml", "is no regular file")]


def test_a_file_that_is_too_large_is_a_problem(folder: Path) -> None:
    with (folder / "large.yaml").open("wb") as file:
        file.truncate(MAX_BYTES + 1)

    found = read_folder(folder)

    message = f"is larger than {MAX_BYTES} bytes, the most that is read"
    assert problems(found) == [("large.yaml", message)]
    assert names(found) == ["good"]


@pytest.mark.parametrize(
    "data", [b"\xff\xfe", b"kind: [", b"\x00", b"a: *b", b"- " * 5000, b"{" * 5000]
)
def test_a_file_that_is_no_yaml_is_a_problem(folder: Path, data: bytes) -> None:
    (folder / "bad.yaml").write_bytes(data)

    found = read_folder(folder)

    assert {name for name, _ in problems(found)} == {"bad.yaml"}
    assert names(found) == ["good"]


def test_objects_of_the_same_name_in_two_files_are_a_problem_of_the_second(folder: Path) -> None:
    (folder / "other.yaml").write_text(entry("good", WEB))

    found = read_folder(folder)

    message = (
        f"a second ServiceEntry default/good, the first is at {folder}/good.yaml:1; "
        "rename or remove one"
    )
    assert problems(found) == [("other.yaml", message)]
    assert names(found) == ["good"]


def test_an_object_with_mistakes_keeps_what_is_right_in_it_beside_good_ones(folder: Path) -> None:
    wrong = document(
        "VirtualService",
        "wrong",
        "{hosts: [good], http: [{route: [{destination: {host: good}}], timeout: soon}]}",
    )
    (folder / "mixed.yaml").write_text("---\n".join((entry("first", WEB), wrong)))

    found = read_folder(folder)

    ((file, message),) = problems(found)
    assert file == "mixed.yaml"
    assert "soon" in message
    assert names(found) == ["first", "good", "wrong"]


def test_a_link_to_a_file_is_read_and_one_that_leads_nowhere_is_a_problem(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere.yaml").write_text(entry("linked", WEB))
    (folder / "linked.yaml").symlink_to(tmp_path / "elsewhere.yaml")
    (folder / "broken.yaml").symlink_to(tmp_path / "none.yaml")
    (folder / "loop.yaml").symlink_to("loop.yaml")

    found = read_folder(folder)

    assert [name for name, _ in problems(found)] == ["broken.yaml", "loop.yaml"]
    assert names(found) == ["good", "linked"]


def test_a_link_to_the_folder_around_it_is_a_problem(folder: Path) -> None:
    (folder / "up").symlink_to(folder.parent)

    found = read_folder(folder)

    assert [name for name, _ in problems(found)] == ["up"]
    assert names(found) == ["good"]


def test_hidden_files_and_those_of_other_names_are_not_read(folder: Path) -> None:
    (folder / ".hidden.yaml").write_text("kind: [")
    (folder / "notes.txt").write_text("kind: [")

    found = read_folder(folder)

    assert problems(found) == []
    assert found.files == (str(folder / "good.yaml"),)


def test_a_name_that_is_no_text_is_read(folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.yaml")).write_text(entry("odd", WEB))

    assert names(read_folder(folder)) == ["good", "odd"]
