"""The flags about logging, given to the command as a process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ISTIO_SCOPES = (
    *("xdsproxy", "healthcheck", "cache", "sds", "citadelclient", "ca", "dns", "probes"),
    *("security", "token"),
)


def agent(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run an agent that ends at once, since it is given nothing of what it needs."""
    return subprocess.run(
        [sys.executable, "-m", "mesh_agent", "proxy", "--envoy-path", "/no/envoy", *arguments],
        cwd=directory,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_istio_s_scopes_are_known_and_another_is_reported_with_them(tmp_path: Path) -> None:
    levels = ",".join(f"{name}:debug" for name in ISTIO_SCOPES)
    done = agent(tmp_path, "--log_output_level", f"default:info,grpc:none,{levels},nothing:debug")
    lines = [line for line in done.stdout.splitlines() if "log scope" in line]
    assert len(lines) == 1, done.stdout
    assert 'named="nothing"' in lines[0]
    assert all(f'"{name}"' in lines[0] for name in ISTIO_SCOPES)


@pytest.mark.parametrize("flag", ["--log_output_level", "--log_stacktrace_level"])
def test_a_level_that_there_is_not_is_reported_with_its_flag(tmp_path: Path, flag: str) -> None:
    done = agent(tmp_path, flag, "dns:loud")
    assert done.returncode == 1
    assert done.stderr == (
        f"mesh-agent: {flag}: log level 'dns:loud': 'loud' is not one of debug, info, warn, "
        "error, fatal, none\n"
    )


def test_lines_go_to_the_targets_that_are_given(tmp_path: Path) -> None:
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    done = agent(
        tmp_path,
        *("--log_target", f"{one},{two}", "--log_target", "stderr"),
        *("--log_rotate", str(three), "--log_output_level", "nothing:debug"),
    )
    assert done.stdout == ""
    assert "log scope" in done.stderr
    assert one.read_text() == two.read_text() == three.read_text() != ""


def test_a_target_that_cannot_be_opened_is_one_clear_problem(tmp_path: Path) -> None:
    done = agent(tmp_path, "--log_target", "/no/such/folder/log")
    assert done.returncode == 1
    assert done.stderr == (
        "mesh-agent: a log file named by --log_target or --log_rotate: /no/such/folder/log cannot "
        "be opened for writing: No such file or directory\n"
    )


def test_with_json_what_is_wrong_is_in_the_log_and_every_line_is_json(tmp_path: Path) -> None:
    done = agent(tmp_path, "--log_as_json", "--vklog=2", "--log_output_level=nothing:debug")
    assert done.returncode == 1
    entries = [json.loads(line) for line in (done.stdout + done.stderr).splitlines()]
    assert all({"time", "level", "scope", "msg"} <= entry.keys() for entry in entries)
    problems = [entry["problem"] for entry in entries if entry["msg"] == "the agent cannot run"]
    assert any("/no/envoy" in problem for problem in problems)


def test_an_error_of_the_agents_own_is_a_line_too(tmp_path: Path) -> None:
    program = (
        "from mesh_agent import Flags; from mesh_agent.logs._setup import start_agent_logging\n"
        "start_agent_logging(Flags(log_as_json=True))\n"
        "raise RuntimeError('unforeseen')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 1
    assert done.stderr == ""
    assert "RuntimeError: unforeseen" in json.loads(done.stdout)["error"]
