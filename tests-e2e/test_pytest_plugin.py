"""The fixture `mesh` in somebody's pytest: what a test's report tells, and what is left behind."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mesh_e2e import ECHO, alive, children_of
from mesh_testkit import PATIENCE_S, plain_environment, until

MESH = f"""\
workloads:
- name: caller
- name: backend
  ports: [{{port: 8080}}]
  command: [python3, {ECHO}]
"""
PYTEST = (
    sys.executable,
    "-m",
    "pytest",
    "-p",
    "mesh_local.pytest_plugin",
    "-p",
    "no:mesh_testkit.plugin",
)
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a mesh file, and nothing of this repository's settings."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "mesh.yaml").write_text(MESH)
    return folder


def run(project: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PYTEST, f"--basetemp={project.parent / 'of-pytest'}", *options],
        cwd=project,
        env=plain_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=10 * PATIENCE_S,
    )


def test_a_failed_test_has_the_logs_of_its_time_and_left_faults_are_ended(project: Path) -> None:
    (project / "mesh.yaml").write_text(MESH.replace(f"[python3, {ECHO}]", "[python3, chatty.py]"))
    (project / "chatty.py").write_text(
        "import http.server, os\n"
        "class Chatty(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        print(self.path * 3000 if 'long' in self.path else self.path, flush=True)\n"
        "        self.send_response(204)\n"
        "        self.end_headers()\n"
        "    def log_message(self, *_): pass\n"
        "place = os.environ['HOST'], int(os.environ['PORT'])\n"
        "http.server.HTTPServer(place, Chatty).serve_forever()\n"
    )
    (project / "test_it.py").write_text(
        "def test_passes(mesh):\n"
        "    assert mesh.get('caller', 'http://backend/before').status == 204\n"
        "def test_fails(mesh):\n"
        "    assert mesh.get('caller', 'http://backend/during').status == 0\n"
        "def test_fails_long(mesh):\n"
        "    mesh.get('caller', 'http://backend/long')\n"
        "    assert 0\n"
        "def test_leaves(mesh):\n"
        "    mesh.abort('caller', 'backend', 418)\n"
        "def test_after(mesh):\n"
        "    assert mesh.get('caller', 'http://backend/after').status == 204\n"
    )
    done = run(project)
    assert "2 failed, 3 passed, 1 warning" in done.stdout
    failure = done.stdout.partition("test_fails _")[2].partition("test_fails_long _")[0]
    assert "mesh: backend ---" in failure
    assert "/during" in failure
    assert "/before" not in failure
    assert 3000 < done.stdout.count("/long") * len("/long") < 6000
    assert "bytes before" in done.stdout
    assert "test_it.py::test_leaves left faults, which were ended: abort caller to b" in done.stdout


def test_a_mesh_that_can_t_start_fails_each_test_with_its_reason(project: Path) -> None:
    (project / "mesh.yaml").write_text(MESH.replace(str(ECHO), "-c, \"raise SystemExit('why')\""))
    (project / "test_it.py").write_text("def test_a(mesh): pass\ndef test_b(mesh): pass\n")
    done = run(project)
    assert "2 errors" in done.stdout
    assert (
        done.stdout.count("backend ended (exit code 1): why\nthe last lines of backend.log:") == 2
    )
    assert "Traceback" not in done.stdout
    assert "pytest_plugin.py" not in done.stdout


async def test_nothing_is_left_when_pytest_is_killed(project: Path) -> None:
    ready = project / "ready"
    (project / "test_it.py").write_text(
        "import pathlib, time\n"
        "def test_a(mesh):\n"
        f"    pathlib.Path({str(ready)!r}).touch()\n"
        "    time.sleep(600)\n"
    )
    log = project / "log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *PYTEST,
            f"--basetemp={project.parent / 'of-pytest'}",
            cwd=project,
            env=plain_environment(),
            stdout=output,
            stderr=output,
        )
    try:
        await until(ready.exists, what="the test to run", seen=log.read_text)
        below = list(descendants(process.pid))
        segments = shared_memory(project.parent)
        assert len(below) >= 6, "a control plane, two agents, two Envoys, a program"
        assert len(segments) == 2
        assert all(map(Path.exists, segments))
    finally:
        process.kill()
        await process.wait()
    await until(lambda: not any(map(alive, below)), what="the end of all processes")
    await until(lambda: not any(map(Path.exists, segments)), what="the end of shared memory")
    for socket in (path for path in project.parent.rglob("*") if path.is_socket()):
        socket.unlink()  # below pytest's own folder, which keeps the last three runs


def descendants(pid: int) -> list[int]:
    below = children_of(pid)
    return [*below, *(each for child in below for each in descendants(child))]


def shared_memory(folder: Path) -> list[Path]:
    files = folder.rglob("etc/istio/proxy/base-id-*-*")
    ids = [int(each.read_text()) for each in files if each.is_file() and "_" not in each.name]
    return [Path(f"/dev/shm/envoy_shared_memory_{each * 10}") for each in ids]
