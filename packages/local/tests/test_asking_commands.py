"""The commands about another terminal's mesh where there is none, or only its logs.

With a mesh that runs they are in `tests-e2e/test_local_commands.py`.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from mesh_local.state._folder import opened


def call(*arguments: str, where: Path) -> subprocess.CompletedProcess[str]:
    """Run the command as users do."""
    return subprocess.run(
        [sys.executable, "-m", "mesh_local", *arguments],
        cwd=where,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("status",),
        ("status", "-o", "json"),
        ("logs",),
        ("wait",),
        ("down",),
        ("exec", "backend", "--", "true"),
        ("request", "backend", "http://backend/"),
    ],
)
def test_no_mesh_is_one_sentence(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = call(*arguments, where=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"mesh-local: no mesh runs in {tmp_path}: name its file, or its state folder with "
        "--state-dir\n"
    )


@pytest.mark.parametrize("command", ["status", "wait", "down"])
def test_a_mesh_that_has_ended_is_one_sentence(tmp_path: Path, command: str) -> None:
    with opened(tmp_path / "state"):
        pass
    done = call(command, "--state-dir", str(tmp_path / "state"), where=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    said = f"mesh-local: no mesh runs with the state folder {tmp_path / 'state'}\n"
    assert done.stderr == said


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("status", "--nonsense"), "No such option: --nonsense"),
        (("status", "-o", "xml"), "'xml' is not"),
        (("logs", "--lines", "-1"), "Invalid value for '--lines' / '-n'"),
        (("wait", "--timeout", "0"), "Invalid value for '--timeout'"),
        (("down", "a.yaml", "b.yaml"), "unexpected extra argument"),
        (("status", "a.yaml", "--file", "b.yaml"), "two files are named, a.yaml and b.yaml"),
        (("exec", "backend"), "Missing argument 'COMMAND"),
        (("request", "backend"), "Missing argument 'URL'"),
        (("request", "a", "http://a/", "-H", "x"), 'a header is written as "name: value"'),
        (("request", "a", "http://a/", "--timeout", "0"), "Invalid value for '--timeout'"),
        (("init", "a", "b"), "unexpected extra argument"),
    ],
)
def test_a_wrong_call_is_one_sentence(
    tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    done = call(*arguments, where=tmp_path)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert sentence in done.stderr
    assert f"(see mesh-local {arguments[0]} --help)" in done.stderr


def test_the_logs_of_a_mesh_that_has_ended_are_shown_with_names_if_there_are_several(
    tmp_path: Path,
) -> None:
    with opened(tmp_path / ".mesh-local" / "mesh") as state:
        (state.logs / "backend.log").write_text("one\ntwo\nthree\n")
        (state.logs / "control-plane.log").write_text("ready\n")
    done = call("logs", "backend", "--lines", "2", where=tmp_path)
    assert (done.returncode, done.stdout) == (0, "two\nthree\n")
    done = call("logs", "--lines", "1", where=tmp_path)
    assert (done.returncode, done.stdout) == (0, "backend | three\ncontrol-plane | ready\n")


@pytest.mark.parametrize("command", ["status", "down", "up"])
def test_a_directory_in_place_of_the_file_is_reported(tmp_path: Path, command: str) -> None:
    (tmp_path / "shop").mkdir()
    done = call(command, "shop", where=tmp_path)
    sentence = "mesh-local: shop:1: this is a directory; name the YAML file in it\n"
    assert (done.returncode, done.stderr) == (1, sentence)


@pytest.mark.parametrize("command", ["status", "down", "logs"])
def test_the_file_may_be_named_with_an_option(tmp_path: Path, command: str) -> None:
    done = call(command, "--file", "shop.yaml", where=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("mesh-local: the mesh of shop.yaml has not run")


def test_a_question_does_not_load_the_control_plane() -> None:
    loaded = subprocess.check_output(
        [sys.executable, "-c", "import mesh_local._command, sys; print(*sys.modules)"], text=True
    ).split()
    assert "mesh_local.asking._asking" in loaded
    assert not {"mesh_discovery", "grpc"} & {*loaded}


def test_init_says_what_it_wrote_and_what_comes_next(tmp_path: Path) -> None:
    done = call("init", "my shop", where=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "my shop/mesh.yaml",
        "my shop/backend.py",
        "my shop/frontend.py",
        "run it with: mesh-local up 'my shop/mesh.yaml'",
    ]
    assert call("check", where=tmp_path / "my shop").returncode == 0
    again = call("init", "my shop", where=tmp_path)
    assert (again.returncode, again.stdout, len(again.stderr.splitlines())) == (1, "", 1)
