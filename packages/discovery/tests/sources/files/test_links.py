"""Links and other odd entries in the configuration directory: each is a mistake of its own."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mesh_configfile import Problem
from mesh_discovery import ConfigLoader
from mesh_discovery.sources.files._loader import Load
from mesh_discovery.sources.files._tree import TreeLimits, read_tree
from planes import Documents, run_command

Start = Callable[..., Awaitable[Any]]

ENTRY = (
    "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: a}\n"
    "spec:\n  hosts: [a.example]\n  resolution: STATIC\n"
    "  ports: [{number: 80, name: tcp, protocol: TCP}]\n  endpoints: [{address: 10.0.0.1}]\n"
)
LIMITS = TreeLimits(entries=200, behind_link=20, in_vain=50, depth=5)


def itself(path: Path) -> None:
    path.symlink_to(path.name)


def below_a_file(path: Path) -> None:
    path.symlink_to("a.yaml/b")


def an_impossible_name(path: Path) -> None:
    path.symlink_to("x" * 300)


def the_root(path: Path) -> None:
    path.symlink_to("/")


def what_is_not_there(path: Path) -> None:
    path.symlink_to("nowhere")


def a_fifo(path: Path) -> None:
    os.mkfifo(path)


def a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def a_file_of_the_kernel(path: Path) -> None:
    path.symlink_to("/proc/self/mem")


def a_socket_directory(path: Path) -> None:
    path.symlink_to("/proc/self/fd/0/x")


ODD: dict[Callable[[Path], None], str] = {
    itself: "Too many levels of symbolic links",
    below_a_file: "Not a directory",
    an_impossible_name: "File name too long",
    the_root: "leads to /, which the config directory itself is in",
    what_is_not_there: "No such file or directory",
    a_fifo: "it is a FIFO, a regular file is needed",
    a_device: "it is a device, a regular file is needed",
    a_file_of_the_kernel: "can't be read: ",
    a_socket_directory: "can't be read: ",
}
odd_entries = pytest.mark.parametrize("make", ODD, ids=lambda each: each.__name__)


def told(load: Load) -> list[tuple[str, str]]:
    return [(Path(each.file).name, each.message) for each in load.problems]


@odd_entries
def test_an_odd_entry_is_a_mistake_of_its_own_and_other_files_are_read(
    make: Callable[[Path], None], config_dir: Path
) -> None:
    (config_dir / "a.yaml").write_text(ENTRY)
    loader = ConfigLoader(config_dir)
    loader.load()
    make(config_dir / "odd.yaml")
    (config_dir / "a.yaml").write_text(ENTRY.replace("10.0.0.1", "10.0.0.2"))

    load = loader.load([(str(config_dir), "odd.yaml"), (str(config_dir), "a.yaml")])

    ((name, message),) = told(load)
    assert name == "odd.yaml"
    assert ODD[make] in message
    assert "10.0.0.2" in str(load.snapshot.objects)
    loader.signature()


@odd_entries
async def test_check_tells_an_odd_entry_in_one_line(
    make: Callable[[Path], None], config_dir: Path, tmp_path: Path
) -> None:
    (config_dir / "a.yaml").write_text(ENTRY)
    make(config_dir / "odd.yaml")

    code, output = await run_command(tmp_path, "check", str(config_dir))

    assert code == 1
    (line,) = output.splitlines()
    assert f"{config_dir}/odd.yaml:1: " in line
    assert ODD[make] in line


@odd_entries
async def test_an_odd_entry_does_not_end_a_running_control_plane(
    make: Callable[[Path], None],
    config_dir: Path,
    *,
    start_plane: Start,
    eventually: Start,
    yaml: Documents,
) -> None:
    (config_dir / "web.yaml").write_text(yaml.service("web", "127.0.0.1", 80, 8080))
    plane = await start_plane(config_dir)
    make(config_dir / "odd.yaml")

    async def wrong() -> Any:
        return (await plane.get("/debug/status"))["wrong_files"]

    (odd,) = await eventually(wrong, what="the odd entry")
    assert odd["file"] == str(config_dir / "odd.yaml")
    (config_dir / "policy.yaml").write_text(yaml.peer_authentication("STRICT"))

    async def kinds() -> list[str]:
        return [each["kind"] for each in (await plane.get("/debug/configz"))["objects"]]

    await eventually(kinds, wanted=["PeerAuthentication", "ServiceEntry"], what="a later file")
    (config_dir / "odd.yaml").unlink()
    await eventually(wrong, wanted=[], what="the end of the odd entry")


@pytest.mark.parametrize("make", [itself, below_a_file, an_impossible_name, what_is_not_there])
def test_a_file_beside_the_directory_may_be_an_odd_entry(
    make: Callable[[Path], None], config_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.yaml").touch()
    make(tmp_path / "mesh.yaml")

    load = ConfigLoader(config_dir, mesh_config=tmp_path / "mesh.yaml").load()

    ((name, message),) = told(load)
    assert name == "mesh.yaml"
    assert ODD[make] in message


@pytest.mark.parametrize("make", [itself, below_a_file, an_impossible_name])
def test_a_link_that_cannot_be_followed_keeps_what_was_behind_it(
    make: Callable[[Path], None], config_dir: Path, tmp_path: Path
) -> None:
    (config_dir / "a.yaml").write_text(ENTRY.replace("name: a}", "name: b}").replace("a.ex", "b."))
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "s.yaml").write_text(ENTRY)
    (config_dir / "shared").symlink_to(tmp_path / "shared")
    loader = ConfigLoader(config_dir)
    assert len(loader.load().snapshot.objects) == 2
    (config_dir / "shared").unlink()
    make(config_dir / "shared")

    load = loader.load()

    assert len(load.snapshot.objects) == 2
    ((name, message),) = told(load)
    assert (name, message) == ("shared", f"can't be followed: {ODD[make]}")


def names(directory: Path, problems: list[Problem]) -> list[str]:
    tree = read_tree(directory, problems=problems, reach=lambda _: None, limits=LIMITS)
    return [str(Path(each).relative_to(directory)) for each in tree.files]


def filled(directory: Path, files: int) -> Path:
    directory.mkdir(parents=True)
    for number in range(files):
        (directory / f"{number:03}.yaml").touch()
    return directory


def test_a_link_leads_to_a_directory_elsewhere_of_no_more_than_so_many_entries(
    config_dir: Path, tmp_path: Path
) -> None:
    filled(config_dir / "own", 50)
    (config_dir / "few").symlink_to(filled(tmp_path / "few", 20))
    (config_dir / "many").symlink_to(filled(tmp_path / "many" / "inside", 20).parent)
    (config_dir / "next").symlink_to(filled(tmp_path / "next", 3))
    problems: list[Problem] = []

    found = names(config_dir, problems)

    assert len(found) == 20 + 50 + 3
    (problem,) = problems
    assert problem.file == str(config_dir / "many")
    assert problem.message == (
        f"leads to {tmp_path}/many, with more than 20 entries below it; "
        "link to the directories that hold configuration"
    )


def test_links_that_lead_to_too_much_are_looked_behind_only_so_often(
    config_dir: Path, tmp_path: Path
) -> None:
    filled(config_dir / "z-own", 50)
    for number in range(5):
        (config_dir / f"many{number}").symlink_to(filled(tmp_path / f"many{number}", 30))
    problems: list[Problem] = []

    found = names(config_dir, problems)

    assert len(found) == 50
    assert [Path(each.file).name for each in problems] == [f"many{number}" for number in range(5)]
    assert "is not followed" in problems[3].message


def test_links_that_lead_to_each_other_are_listed_once(config_dir: Path, tmp_path: Path) -> None:
    for one, other in (("a", "b"), ("b", "a")):
        filled(tmp_path / one, 2)
        (tmp_path / one / "other").symlink_to(tmp_path / other)
    (config_dir / "a").symlink_to(tmp_path / "a")
    (config_dir / "inside").symlink_to(".")
    problems: list[Problem] = []

    assert names(config_dir, problems) == [
        *("a/000.yaml", "a/001.yaml"),
        *("a/other/000.yaml", "a/other/001.yaml"),
    ]
    assert not problems


def test_a_directory_of_too_many_entries_is_told_once(config_dir: Path) -> None:
    filled(config_dir / "a", 150)
    filled(config_dir / "b", 150)
    problems: list[Problem] = []

    assert len(names(config_dir, problems)) == 150
    assert [(each.file, each.message) for each in problems] == [
        (
            str(config_dir),
            "has more than 200 entries below it; the others are not read",
        )
    ]


def test_directories_nest_so_deep(config_dir: Path) -> None:
    path = config_dir
    for _ in range(8):
        path /= "d"
        path.mkdir()
        (path / "x.yaml").touch()
    problems: list[Problem] = []

    assert len(names(config_dir, problems)) == 5
    (problem,) = problems
    assert problem.message == (
        "is more than 5 directories below the config directory; it is not read"
    )
