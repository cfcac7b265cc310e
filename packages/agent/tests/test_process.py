"""The command as a process of its own: what a user's mistake looks like from outside."""

import os
import subprocess
import sys
from pathlib import Path


def mesh_agent(
    directory: Path, *arguments: str, **environ: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mesh_agent", *arguments],
        cwd=directory,
        env={"PATH": os.environ["PATH"], **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_all_that_is_missing_is_told_a_sentence_each(tmp_path: Path) -> None:
    done = mesh_agent(tmp_path, "proxy", "--envoy-path", "/no/such/envoy")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert all(line.startswith("mesh-agent: ") for line in lines)
    for what in ("istio-token does not exist", "root-cert.pem does not exist", "/no/such/envoy"):
        assert sum(what in line for line in lines) == 1, what


def test_flags_of_other_versions_are_passed_over(tmp_path: Path) -> None:
    done = mesh_agent(
        tmp_path,
        *("proxy", "sidecar", "--serviceregistry=Kubernetes", "--stsPort=15463"),
        *("--envoy-path", "/no/such/envoy"),
    )
    assert done.returncode == 1
    assert "serviceregistry" not in done.stderr
    assert "istio-token does not exist" in done.stderr


def test_an_unknown_role_is_told_with_the_known_ones(tmp_path: Path) -> None:
    done = mesh_agent(tmp_path, "proxy", "gateway")
    assert done.returncode == 1
    assert "proxy type 'gateway' is not known, it must be one of sidecar, router" in done.stderr


def test_a_bad_log_level_is_told_with_the_known_ones(tmp_path: Path) -> None:
    done = mesh_agent(tmp_path, "proxy", "--log_output_level", "noisy")
    assert done.returncode == 1
    assert "'noisy' is not one of debug, info" in done.stderr


def test_a_bad_setting_is_told_by_its_name(tmp_path: Path) -> None:
    done = mesh_agent(tmp_path, "proxy", SECRET_TTL="tomorrow")
    assert done.returncode == 1
    assert "SECRET_TTL: 'tomorrow' is not a duration such as 24h" in done.stderr
