"""`python -m mesh_dnsproxy` as a process."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import dns.rcode
import pytest

from dns_peers import ask
from mesh_dnsproxy import ConfigError, Upstream
from mesh_dnsproxy._command import main, parse_arguments
from mesh_testkit import until


@asynccontextmanager
async def command(*arguments: str) -> AsyncIterator[tuple[str, int]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "mesh_dnsproxy",
        *("--listen", "127.0.0.1:0", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        host, port = line.removeprefix("listening on ").strip().rsplit(":", 1)
        yield host, int(port)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        _, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
        assert "Traceback" not in errors.decode()


def write(file: Path, *addresses: str) -> None:
    beside = file.with_suffix(".new")
    host = {"ips": addresses, "registry": "Kubernetes", "shortname": "web", "namespace": "ns"}
    beside.write_text(json.dumps({"table": {"web.ns.svc.mesh": host}}))
    beside.replace(file)


async def test_the_file_is_answered_from_and_followed(tmp_path: Path) -> None:
    file = tmp_path / "names.json"
    empty = tmp_path / "resolv.conf"
    empty.write_text("nameserver 127.0.0.1:1\nsearch ns.svc.mesh\n")
    write(file, "10.0.0.1")
    options = ("--table", str(file), "--domain", "svc.mesh", "--namespace", "ns")
    async with command(*options, "--resolv-conf", str(empty)) as address:

        async def now() -> list[str]:
            answer = await ask(address, "web.")
            return [str(data) for rrset in answer.answer for data in rrset]

        await _holds(now, ["10.0.0.1"])
        assert (await ask(address, "other.")).rcode() == dns.rcode.SERVFAIL
        write(file, "10.0.0.2")
        await _holds(now, ["10.0.0.2"])
        file.write_text('{"table": {')
        write(file, "10.0.0.3")
        await _holds(now, ["10.0.0.3"])
        file.unlink()
        assert await now() == ["10.0.0.3"]


async def _holds(ask_now: Callable[[], Awaitable[list[str]]], expected: list[str]) -> None:
    async def held() -> bool:
        return await ask_now() == expected

    await until(held, what=f"{expected}")


async def test_without_a_table_everything_is_forwarded(tmp_path: Path) -> None:
    missing = tmp_path / "resolv.conf"
    async with command("--resolv-conf", str(missing), "--upstream", "127.0.0.1:1") as address:
        assert (await ask(address, "a.example.")).rcode() == dns.rcode.SERVFAIL


def test_every_switch_has_its_setting() -> None:
    config = parse_arguments(
        [
            *("--upstream", "10.0.0.1", "--upstream", "corp.example=10.0.0.2:5353"),
            *("--parallel", "--no-negative-cache", "--no-serve-stale"),
            *("--forward-before-table", "--listen", "[::1]:53"),
        ]
    ).config
    assert config.upstreams == (Upstream("10.0.0.1"),)
    assert config.suffix_upstreams == {"corp.example": (Upstream("10.0.0.2", 5353),)}
    assert config.forward.parallel
    assert config.cache is not None
    assert not config.cache.negative
    assert not config.cache.serve_stale
    assert config.forward_before_table
    assert config.listen == (("::1", 53),)
    bare = parse_arguments(["--no-cache", "--no-coalesce"]).config
    assert bare.cache is None
    assert not bare.forward.coalesce


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--listen", "here"], "no address to listen on"),
        (["--upstream", "dns.example"], "no address of a server"),
        (["--domain", "a..b"], "an empty label"),
        (["--no-coalesce"], "there is a cache"),
    ],
)
def test_a_mistake_on_the_command_line_is_reported(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_arguments(arguments)
    assert main(arguments) == 2
    assert problem in capsys.readouterr().err
