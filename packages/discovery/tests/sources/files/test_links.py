"""Links and other odd entries in the configuration directory: each is a mistake of its own."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from documents import Documents
from mesh_discovery import ConfigLoader
from mesh_discovery.sources.files._loader import Load
from planes import run_command

Start = Callable[..., Awaitable[Any]]

ENTRY = (
    "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: a}\n"
    "spec:\n  hosts: [a.example]\n  resolution: STATIC\n"
    "  ports: [{number: 80, name: tcp, protocol: TCP}]\n  endpoints: [{address: 10.0.0.1}]\n"
)


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


def mistakes(load: Load) -> list[tuple[str, str]]:
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

    ((name, message),) = mistakes(load)
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

    ((name, message),) = mistakes(load)
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
    ((name, message),) = mistakes(load)
    assert (name, message) == ("shared", f"can't be followed: {ODD[make]}")
