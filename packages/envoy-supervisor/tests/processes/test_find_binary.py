from __future__ import annotations

import re
from pathlib import Path

import pytest

from envoy_supervisor import EnvoyNotFound, find_envoy
from mesh_testkit.envoys import find_envoy as envoy_of_the_wheel


def executable(path: Path, content: str = "\x7fELF") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(0o755)
    return path


@pytest.mark.usefixtures("envoy_binary")
def test_the_first_place_that_applies_decides(tmp_path: Path) -> None:
    given = executable(tmp_path / "given")
    named = executable(tmp_path / "named")
    on_path = executable(tmp_path / "bin" / "envoy")
    environ = {"ENVOY_PATH": str(named), "PATH": f"/nowhere::{on_path.parent}"}
    assert find_envoy(given, environ) == given
    assert find_envoy(None, environ) == named
    assert find_envoy(None, {"PATH": environ["PATH"]}) == on_path
    assert find_envoy() == envoy_of_the_wheel()


@pytest.mark.usefixtures("envoy_binary")
def test_the_python_launcher_of_the_wheel_is_passed_over(tmp_path: Path) -> None:
    launcher = executable(tmp_path / "envoy", "#!/usr/bin/env python3\n")
    assert find_envoy(None, {"PATH": str(launcher.parent)}) == envoy_of_the_wheel()


@pytest.mark.parametrize("variable", [True, False])
def test_what_was_asked_for_is_never_replaced(tmp_path: Path, *, variable: bool) -> None:
    missing = tmp_path / "envoy"
    source = "ENVOY_PATH" if variable else "the path given"
    with pytest.raises(EnvoyNotFound, match=re.escape(f"{source} names {missing}, which does not")):
        find_envoy(None if variable else missing, {"ENVOY_PATH": str(missing)} if variable else {})


def test_a_file_that_cannot_be_executed_is_named(tmp_path: Path) -> None:
    (tmp_path / "envoy").write_text("")
    with pytest.raises(EnvoyNotFound, match="not an executable file"):
        find_envoy(tmp_path / "envoy")
    with pytest.raises(EnvoyNotFound, match="not an executable file"):
        find_envoy(tmp_path)


def test_a_file_beside_the_agent_is_not_looked_for_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    beside = executable(tmp_path / "envoy")
    assert find_envoy(None, {"ENVOY_PATH": "./envoy"}) == beside
    assert find_envoy(Path("envoy")) == beside


@pytest.mark.parametrize("target", ["envoy", "plain/below", "x" * 300, "/", "/dev/zero"])
def test_an_odd_link_is_reported_where_it_was_asked_for_and_passed_over_on_path(
    tmp_path: Path, target: str
) -> None:
    (tmp_path / "plain").touch()
    (tmp_path / "envoy").symlink_to(target)
    later = executable(tmp_path / "bin" / "envoy")

    with pytest.raises(EnvoyNotFound, match=f"ENVOY_PATH names {tmp_path}/envoy, which"):
        find_envoy(None, {"ENVOY_PATH": str(tmp_path / "envoy")})

    path = f"{tmp_path}:{tmp_path}/envoy:{later.parent}"
    assert find_envoy(None, {"PATH": path}) == later
