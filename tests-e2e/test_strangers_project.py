"""A stranger's project: an empty folder, the wheels, and what mesh-local's README says.

The files are those of the README's page, in an environment that has nothing of this checkout on its
path; its tests run as a user who may do nothing on this machine.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mesh_testkit import PATIENCE_S
from pythons import newest_python
from workspace import ROOT, closure, packages

README = ROOT / "packages" / "local" / "README.md"
CONSTRAINTS = ROOT / "tools" / "constraints.txt"
FILES = {"mesh.yaml", "backend.py", "frontend.py", "test_shop.py"}
_BLOCK = re.compile(r"^```(?:yaml|py)\n# ([\w.]+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
OTHER_USER = 65534
PYTHONS = [sys.executable, *filter(None, [newest_python()])]
WITHIN_S = 10 * PATIENCE_S

pytestmark = pytest.mark.slow
Record = Callable[[str, object], None]


def uv(*arguments: str | Path) -> None:
    program = shutil.which("uv")
    assert program is not None, "uv is on PATH where tools/dev.py runs this"
    subprocess.run([program, *arguments], check=True, capture_output=True, timeout=WITHIN_S)


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder that every user may enter, as pytest's own is not."""
    folder = Path(f"/tmp/mesh-stranger-{os.getpid()}")
    folder.mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def wheels(place: Path) -> list[str]:
    """The wheels of mesh-local and of all that it needs of this repository."""
    (local,) = (each for each in packages() if each.name == "mesh-local")
    for each in closure(local):
        pinned = ("--build-constraints", CONSTRAINTS)
        uv("build", "--quiet", "--wheel", "--out-dir", place / "wheels", *pinned, each.folder)
    return sorted(map(str, (place / "wheels").glob("*.whl")))


@pytest.fixture(scope="module", params=PYTHONS, ids=["oldest", "newest"][: len(PYTHONS)])
def environment(request: pytest.FixtureRequest, wheels: list[str], place: Path) -> Path:
    """An environment of one Python with the wheels, and what the project uses besides."""
    python = Path(os.path.realpath(request.param))
    folder = place / f"{python.name}-environment"
    uv("venv", "--quiet", "--python", for_all_users(python, place), folder)
    local = [f"{each}[pytest]" for each in wheels if Path(each).name.startswith("mesh_local-")]
    uv(
        *(
            "pip",
            "install",
            "--quiet",
            "--python",
            str(folder / "bin/python"),
            "--compile-bytecode",
        ),
        *("--constraint", str(CONSTRAINTS), *wheels, *local, "fastapi", "uvicorn", "pytest-xdist"),
    )
    return folder


def for_all_users(python: Path, place: Path) -> Path:
    """Return a Python that the tests' user may run: root's own may lie in root's home."""
    if os.geteuid() != 0:
        return python
    left_out = shutil.ignore_patterns("site-packages", "test", "__pycache__", "*.a", "share")
    copy = place / python.name
    shutil.copytree(python.parents[1], copy, ignore=left_out, symlinks=True)
    return copy / "bin" / python.name


@pytest.fixture
def project(place: Path) -> Path:
    """The folder of the project, which is the user's own."""
    folder = place / "shop"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, text in _BLOCK.findall(README.read_text()):
        if name in FILES:
            (folder / name).write_text(text)
    assert {each.name for each in folder.iterdir()} == FILES
    if os.geteuid() == 0:
        for each in (folder, *folder.iterdir()):
            os.chown(each, OTHER_USER, OTHER_USER)
    return folder


def as_another_user() -> list[str]:
    """Return the words before a command that make it run without any right to change a thing."""
    if os.geteuid() != 0:
        return []
    user = (f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups", "--no-new-privs")
    return ["setpriv", *user, "--inh-caps=-all", "--bounding-set=-all"]


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "two-workers"])
def test_the_project_of_the_readme_is_green(
    environment: Path, project: Path, options: tuple[str, ...], record: Record
) -> None:
    began = time.monotonic()
    done = subprocess.run(
        [*as_another_user(), environment / "bin/pytest", "-v", "--durations=1", *options],
        cwd=project,
        env=bare_environment(environment, project),
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    took_s = time.monotonic() - began
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
    which = f"{environment_version(environment)}{' '.join(options)}"
    record(f"whole run, {which}, s", round(took_s, 1))
    for found in re.findall(r"([\d.]+)s setup", done.stdout):
        record(f"until the mesh is ready, {which}, s", found)
    assert not processes_in(project), "processes outlive the tests"


def test_the_demo_needs_no_checkout(environment: Path, project: Path) -> None:
    done = subprocess.run(
        [*as_another_user(), environment / "bin/mesh-local", "demo"],
        cwd=project,
        env=bare_environment(environment, project),
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All checks passed" in done.stdout
    assert {each.name for each in project.iterdir()} == FILES


def bare_environment(environment: Path, project: Path) -> dict[str, str]:
    return {
        "PATH": os.defpath,
        "TMPDIR": str(project),
        "HOME": str(project),
        # A Python that was copied may look for its library where it was.
        "LD_LIBRARY_PATH": str((environment / "bin/python").resolve().parents[1] / "lib"),
    }


def environment_version(environment: Path) -> str:
    (library,) = (environment / "lib").iterdir()
    return f"{library.name} "


def processes_in(folder: Path) -> list[str]:
    """Return the processes that work in a folder or were given it."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder) in f"{(each / 'cwd').readlink()} {(each / 'cmdline').read_bytes()!r}":
                found.append((each / "cmdline").read_text())
        except OSError:
            continue
    return found
