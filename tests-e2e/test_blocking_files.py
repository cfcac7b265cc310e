"""FIFOs and mounts that hang in the place of files, given to the real commands.

Each ends with one sentence, none waits longer than it says, and SIGTERM ends those that wait.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from mesh_e2e import ROOT, TOKEN, ForeignAuthority, agent_environment, own_address, put, run_command
from mesh_testkit import PATIENCE_S, hanging_mount

pytestmark = pytest.mark.slow

ADDRESS = own_address(2)
"""For the commands run here; mesh-local never uses it."""
CART = "spiffe://cluster.local/ns/shop/sa/cart"
SENTENCES = {"fifo": "it is a FIFO, a regular file is needed", "mount": "did not answer within"}


@pytest.fixture(params=["fifo", "mount"])
def blocking(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A path whose reading blocks, and what is to be said of it."""
    kind = str(request.param)
    directory = tmp_path / "blocking"
    directory.mkdir()
    with ExitStack() as stack:
        if kind == "fifo":
            os.mkfifo(directory / "file")
        else:
            stack.enter_context(hanging_mount(directory))
        yield directory / "file", SENTENCES[kind]


def put_in_place(directory: Path, name: str, blocking: Path) -> None:
    """As the file itself, through a link."""
    place = directory / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    place.symlink_to(blocking)


@pytest.mark.parametrize(
    ("place", "variables"),
    [
        ("etc/istio/pod/labels", {}),
        ("etc/istio/pod/annotations", {}),
        ("bootstrap.json", {"ISTIO_BOOTSTRAP": "bootstrap.json"}),
    ],
)
async def test_an_agent_does_not_start_with_files_that_block(
    tmp_path: Path, blocking: tuple[Path, str], place: str, variables: Mapping[str, str]
) -> None:
    path, sentence = blocking
    put(tmp_path, TOKEN, "not.a.token")
    put(tmp_path, ROOT, ForeignAuthority(tmp_path / "foreign", "cluster.local").root_pem)
    put_in_place(tmp_path, place, path)
    status, _, errors = await run_command(
        "mesh_agent",
        "proxy",
        "sidecar",
        environment=agent_environment(ADDRESS, **variables),
        directory=tmp_path,
    )
    assert (status, len(errors.splitlines())) == (1, 1)
    assert place in errors
    assert sentence in errors


@pytest.mark.parametrize("place", [TOKEN, ROOT])
async def test_an_agent_does_not_start_with_a_token_or_root_that_blocks(
    tmp_path: Path, blocking: tuple[Path, str], place: Path
) -> None:
    path, _ = blocking
    put(tmp_path, TOKEN, "not.a.token")
    put(tmp_path, ROOT, ForeignAuthority(tmp_path / "foreign", "cluster.local").root_pem)
    put_in_place(tmp_path, str(place), path)
    status, _, errors = await run_command(
        "mesh_agent", "proxy", "sidecar", environment=agent_environment(ADDRESS), directory=tmp_path
    )
    assert status == 1
    assert str(place) in errors
    said = ("is not a regular file", SENTENCES["mount"])
    assert all(any(part in line for part in said) for line in errors.splitlines())


@pytest.mark.parametrize("option", ["--config-dir", "--mesh-config", "--ca-dir", "--jwks-file"])
async def test_an_option_that_names_a_mount_that_hangs_does_not_hang(
    tmp_path: Path, option: str
) -> None:
    (tmp_path / "mount").mkdir()
    (tmp_path / "config").mkdir()
    given = {"--config-dir": "config", "--ca-dir": "ca", "--http-addr": f"{ADDRESS}:8080"}
    given |= {"--jwt-issuer": "somebody"} if option == "--jwks-file" else {}
    given |= {"--grpc-addr": "", "--secure-grpc-addr": f"{ADDRESS}:15012", "--monitoring-addr": ""}
    with hanging_mount(tmp_path / "mount") as mount:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "mesh_discovery", "discovery"),
            *(f"{name}={text}" for name, text in (given | {option: str(mount / "it")}).items()),
            cwd=tmp_path,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(PATIENCE_S):
            _, errors = await process.communicate()
    assert process.returncode == (2 if option == "--jwks-file" else 1)
    (line,) = errors.decode().splitlines()
    assert SENTENCES["mount"] in line
    assert str(mount / "it") in line


@pytest.mark.parametrize("place", ["override.json"])
async def test_an_agent_does_not_wait_for_a_mount_that_hangs(tmp_path: Path, place: str) -> None:
    put(tmp_path, TOKEN, "not.a.token")
    put(tmp_path, ROOT, ForeignAuthority(tmp_path / "foreign", "cluster.local").root_pem)
    (tmp_path / "mount").mkdir()
    with hanging_mount(tmp_path / "mount") as mount:
        put_in_place(tmp_path, place, mount / "file")
        status, _, errors = await run_command(
            "mesh_agent",
            "proxy",
            "sidecar",
            environment=agent_environment(ADDRESS, ISTIO_BOOTSTRAP_OVERRIDE="override.json"),
            directory=tmp_path,
        )
    lines = [line for line in errors.splitlines() if place in line]
    assert status == 1
    assert lines
    assert all(SENTENCES["mount"] in line for line in lines)
    assert "Traceback" not in errors


@pytest.mark.parametrize("command", ["check", "discovery"])
async def test_a_configuration_file_that_blocks_is_named(
    tmp_path: Path, blocking: tuple[Path, str], command: str
) -> None:
    path, sentence = blocking
    put_in_place(tmp_path, "config/shop.yaml", path)
    options = ["--config-dir=config"]
    if command == "discovery":
        options += ["--ca-dir=ca", f"--http-addr={ADDRESS}:8080", "--grpc-addr="]
        options += [f"--secure-grpc-addr={ADDRESS}:15012", "--monitoring-addr="]
    status, _, errors = await run_command(
        "mesh_discovery", command, *options, environment=os.environ, directory=tmp_path
    )
    assert (status, len(errors.splitlines())) == (1, 1)
    assert "config/shop.yaml" in errors
    assert sentence in errors


@pytest.mark.parametrize("command", ["check", "up"])
async def test_a_mesh_file_that_blocks_is_named(
    tmp_path: Path, blocking: tuple[Path, str], command: str
) -> None:
    path, sentence = blocking
    put_in_place(tmp_path, "mesh.yaml", path)
    status, _, errors = await run_command(
        "mesh_local", command, "mesh.yaml", environment=os.environ, directory=tmp_path
    )
    assert status == 1
    assert sentence in errors.replace("\n", " ")
    assert "Traceback" not in errors


@pytest.mark.parametrize("option", ["--token", "--ca-root"])
async def test_a_client_of_the_authority_says_which_of_its_files_block(
    tmp_path: Path, blocking: tuple[Path, str], option: str
) -> None:
    path, sentence = blocking
    plaintext = ("--plaintext",) if option == "--token" else ()  # else a root is needed, too
    status, _, errors = await run_command(
        *("certclient", "get", "--ca", f"{ADDRESS}:1", "--spiffe-id", CART, *plaintext),
        *(option, str(path), "--output", str(tmp_path / "out")),
        environment=os.environ,
        directory=tmp_path,
    )
    assert status == 1
    assert sentence in errors
    assert "Traceback" not in errors


async def test_a_client_that_watches_a_mount_that_hangs_ends_with_sigterm(tmp_path: Path) -> None:
    (tmp_path / "mount").mkdir()
    with hanging_mount(tmp_path / "mount") as mount:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "certclient", "watch", "--json", "--plaintext"),
            *("--ca", f"{ADDRESS}:1", "--spiffe-id", CART, "--token", str(mount / "token")),
            *("--output", str(tmp_path / "out")),
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        async with asyncio.timeout(60):
            line = await process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            await process.communicate()
    assert SENTENCES["mount"] in line.decode()
    assert process.returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("mesh_discovery", "check", "--config-dir=config"),
        ("mesh_local", "check", "config/shop.yaml"),
    ],
)
async def test_sigterm_ends_a_command_that_waits_for_a_mount(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "mount").mkdir()
    with hanging_mount(tmp_path / "mount") as mount:
        put_in_place(tmp_path, "config/shop.yaml", mount / "file")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", *arguments, cwd=tmp_path, stderr=asyncio.subprocess.DEVNULL
        )
        process.terminate()
        async with asyncio.timeout(60):
            assert await process.wait() == -signal.SIGTERM
