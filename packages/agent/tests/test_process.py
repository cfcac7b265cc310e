"""The command as a process of its own: what a user's mistake looks like from outside."""

import json
import os
import resource
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from functools import partial
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


def test_all_that_is_missing_is_reported_in_a_sentence_each(tmp_path: Path) -> None:
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


def test_an_unknown_role_is_reported_with_the_known_ones(tmp_path: Path) -> None:
    done = mesh_agent(tmp_path, "proxy", "gateway")
    assert done.returncode == 1
    assert "proxy type 'gateway' is not known, it must be one of sidecar, router" in done.stderr


def test_a_bad_log_level_is_reported_with_the_known_ones(tmp_path: Path) -> None:
    done = mesh_agent(tmp_path, "proxy", "--log_output_level", "noisy")
    assert done.returncode == 1
    assert "'noisy' is not one of debug, info" in done.stderr


def test_a_bad_setting_is_reported_by_its_name(tmp_path: Path) -> None:
    done = mesh_agent(tmp_path, "proxy", SECRET_TTL="tomorrow")
    assert done.returncode == 1
    assert "SECRET_TTL: 'tomorrow' is not a duration such as 24h" in done.stderr


def prepared(directory: Path, *, status_port: int, control_plane: int) -> dict[str, str]:
    """Return the environment of an agent without an Envoy, whose files are in a directory."""
    for name in ("var/run/secrets/tokens/istio-token", "var/run/secrets/istio/root-cert.pem"):
        (directory / name).parent.mkdir(parents=True)
        (directory / name).write_text("x")
    config = {"discoveryAddress": f"127.0.0.1:{control_plane}", "statusPort": status_port}
    return {
        "PATH": os.environ["PATH"],
        "DISABLE_ENVOY": "true",
        "INSTANCE_IP": "127.0.0.1",
        "PROXY_CONFIG": json.dumps(config),
    }


def page(port: int, path: str) -> str:
    """Return a page of the agent; nothing if it does not answer with one."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


async def test_settings_without_effect_are_reported_by_the_agent_that_runs(
    tmp_path: Path, free_port: Callable[[], int]
) -> None:
    port = free_port()
    environ = prepared(tmp_path, status_port=port, control_plane=free_port()) | {
        "JWT_POLICY": "first-party-jwt",
        "GOMEMLIMIT": "1",
        "XDS_HEADER_authorization": "canary-51c0",
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
            shown = partial(page, port, "/debug/config")
            await until(shown, what="/debug/config")
            config = json.loads(shown())
        finally:
            agent.send_signal(signal.SIGTERM)
            output, _ = agent.communicate(timeout=60)
    assert agent.returncode == 0
    assert "canary-51c0" not in json.dumps(config["variables"]["XDS_HEADER_authorization"])
    assert config["without_effect"].keys() == {"JWT_POLICY", "GOMEMLIMIT", "--vklog", "--new"}
    lines = [json.loads(line) for line in output.splitlines()]
    levels = {each["setting"]: each["level"] for each in lines if "setting" in each}
    assert levels == {
        "JWT_POLICY": "warning",
        "GOMEMLIMIT": "info",
        "--vklog": "warning",
        "--new": "warning",
    }
    assert "canary-51c0" not in output


async def test_an_agent_without_file_descriptors_says_so_in_its_status_and_log_until_it_is_over(
    tmp_path: Path, free_port: Callable[[], int]
) -> None:
    port = free_port()
    environ = prepared(tmp_path, status_port=port, control_plane=free_port())
    with subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-m", "mesh_agent", "--log_as_json", "proxy", "sidecar"],
        cwd=tmp_path,
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
    ) as agent:
        try:
            shown = partial(page, port, "/debug/status")

            def fault() -> str:
                document = json.loads(shown() or "{}")
                return str(document.get("details", {}).get("open_files", ""))

            await until(lambda: bool(shown()), what="its status")
            assert not fault()
            before = resource.prlimit(agent.pid, resource.RLIMIT_NOFILE)

            def is_out() -> bool:
                taken = {int(each.name) for each in Path(f"/proc/{agent.pid}/fd").iterdir()}
                lowest_free = next(n for n in range(len(taken) + 1) if n not in taken)
                resource.prlimit(agent.pid, resource.RLIMIT_NOFILE, (lowest_free, before[1]))
                return fault().startswith("out of file descriptors")

            await until(is_out, what="the trouble in its status")
            assert "istio_agent_process_cpu_seconds_total" in page(port, "/metrics")
            resource.prlimit(agent.pid, resource.RLIMIT_NOFILE, before)
            await until(lambda: bool(shown()) and not fault(), what="the end of it")
        finally:
            agent.send_signal(signal.SIGTERM)
            output, _ = agent.communicate(timeout=60)
    messages = [json.loads(line)["msg"] for line in output.splitlines()]
    assert messages.count("out of file descriptors") == 1
