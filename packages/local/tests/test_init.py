from pathlib import Path

import pytest

from mesh_local import StateError, load_mesh_file
from mesh_local._init import write_example


def test_the_mesh_that_is_written_is_a_good_one(tmp_path: Path) -> None:
    file, *programs = write_example(tmp_path / "new")
    assert [each.name for each in load_mesh_file(file).workloads] == ["backend", "frontend"]
    assert all(each.exists() for each in programs)


@pytest.mark.parametrize("name", ["mesh.yaml", "frontend.py"])
def test_nothing_is_overwritten_and_nothing_written_beside_it(tmp_path: Path, name: str) -> None:
    (tmp_path / name).symlink_to("nowhere")
    with pytest.raises(StateError, match=f"{name} is there already"):
        write_example(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_of_several_files_that_are_there_all_are_named(tmp_path: Path) -> None:
    write_example(tmp_path)
    with pytest.raises(StateError, match=r"frontend\.py are there already, and are not"):
        write_example(tmp_path)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match="file can't be written: "):
        write_example(tmp_path / "file")
