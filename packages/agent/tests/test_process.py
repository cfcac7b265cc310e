"""The command as a process of its own: what a user's mistake looks like from outside."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

from mesh_testkit import until


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


async def test_settings_without_effect_are_told_by_the_agent_that_runs(
    tmp_path: Path, free_port: Callable[[], int]
) -> None:
    for name in ("var/run/secrets/tokens/istio-token", "var/run/secrets/istio/root-cert.pem"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("x")
    port = free_port()
    environ = {
        "PATH": os.environ["PATH"],
        "DISABLE_ENVOY": "true",
        "INSTANCE_IP": "127.0.0.1",
        "JWT_POLICY": "first-party-jwt",
        "GOMEMLIMIT": "1",
        "XDS_HEADER_authorization": "canary-51c0",
        "PROXY_CONFIG": json.dumps(
            {
                "discoveryAddress": f"127.0.0.1:{free_port()}",
                "statusPort": port,
            }
        ),
    }
    words = ["--log_as_json", "proxy", "sidecar", "--stsPort", "0", "--vklog=9", "--new", "1"]
    with subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-m", "mesh_agent", *words],
        cwd=tmp_path,
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
    ) as agent:
        try:
            url = f"http://127.0.0.1:{port}/debug/config"

            def shown() -> str:
                try:
                    with urllib.request.urlopen(url, timeout=10) as answer:
                        return str(answer.read().decode())
                except OSError:
                    return ""

            await until(shown, what="/debug/config")
            config = json.loads(shown())
        finally:
            agent.send_signal(signal.SIGTERM)
            output, _ = agent.communicate(timeout=60)
    assert agent.returncode == 0
    assert "canary-51c0" not in json.dumps(config["variables"]["XDS_HEADER_authorization"])
    assert config["without_effect"].keys() == {"JWT_POLICY", "GOMEMLIMIT", "--vklog", "--new"}
    lines = [json.loads(line) for line in output.splitlines()]
    told = {each["setting"]: each["level"] for each in lines if "setting" in each}
    assert told == {
        "JWT_POLICY": "warning",
        "GOMEMLIMIT": "info",
        "--vklog": "warning",
        "--new": "warning",
    }
    assert "canary-51c0" not in output
