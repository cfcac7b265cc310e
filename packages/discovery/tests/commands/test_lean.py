"""The process of the server gives memory back: it starts itself again for that, once."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mesh_discovery._lean import ENVIRONMENT, SWITCH, lean_environment
from xds_server import SERVER_ENVIRONMENT

Start = Callable[..., Awaitable[Any]]


def test_the_environment_is_the_one_that_xds_server_recommends() -> None:
    assert dict(ENVIRONMENT) == dict(SERVER_ENVIRONMENT)


def test_what_is_missing_is_added_and_what_the_user_has_set_stays() -> None:
    environ = lean_environment(
        {"PATH": "/bin", "GLIBC_TUNABLES": "", "PYTHONMALLOC": "debug"}, glibc=True
    )

    assert environ == {
        **ENVIRONMENT,
        "PATH": "/bin",
        "GLIBC_TUNABLES": "",
        "PYTHONMALLOC": "debug",
        SWITCH: "done",
    }


def test_the_second_process_stays_even_if_variables_were_taken_from_it() -> None:
    environ = lean_environment({}, glibc=True)
    assert environ is not None
    for name in ENVIRONMENT:
        left = {key: value for key, value in environ.items() if key != name}
        assert lean_environment(left, glibc=True) is None


@pytest.mark.parametrize("environ", [dict(ENVIRONMENT), {SWITCH: "false"}])
def test_there_is_one_process_where_all_is_set_or_it_is_not_wanted(environ: dict[str, str]) -> None:
    assert lean_environment(environ, glibc=True) is None


def test_there_is_one_process_with_another_c_library() -> None:
    assert lean_environment({}, glibc=False) is None


def environment_of(pid: int) -> dict[str, str]:
    text = Path(f"/proc/{pid}/environ").read_text()
    # An older glibc cuts the list of tunables up where it lies, after it has made a copy.
    entries = text.replace("\0glibc.", ":glibc.").rstrip("\0").split("\0")
    return dict(entry.split("=", 1) for entry in entries)


SCRIPT = "import sys\nfrom mesh_discovery._command import main\nsys.exit(main())\n"


@pytest.mark.parametrize("as_script", [False, True])
async def test_however_it_is_started_it_becomes_lean_under_the_same_pid(
    config_dir: Path, tmp_path: Path, start_plane: Start, *, as_script: bool
) -> None:
    script = tmp_path / "mesh-discovery"
    script.write_text(SCRIPT)
    command = (str(script),) if as_script else ("-m", "mesh_discovery")

    plane = await start_plane(config_dir, command=command, GRPC_EXPERIMENTS="")

    pid = plane.process.process.pid
    environ = environment_of(pid)
    expected = {**ENVIRONMENT, "GRPC_EXPERIMENTS": "", SWITCH: "done"}
    assert {name: environ[name] for name in expected} == expected
    arguments = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    assert arguments[: len(command) + 2] == [sys.executable, *command, "discovery"]
    assert await plane.process.stop() == 0


async def test_it_can_be_left_as_it_was_started(config_dir: Path, start_plane: Start) -> None:
    plane = await start_plane(config_dir, **{SWITCH: "false"})

    assert environment_of(plane.process.process.pid)[SWITCH] == "false"


async def test_nothing_heavy_is_loaded_before_that() -> None:
    code = "import sys, mesh_discovery._command; print(*sys.modules)"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()

    assert process.returncode == 0
    assert set(output.decode().split()).isdisjoint({"asyncio", "grpc", "typer", "xds_server"})
