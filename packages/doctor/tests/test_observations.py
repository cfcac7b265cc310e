"""All that is looked at may be hostile: each observation ends in time, and says what was there."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import jwt
import pytest

from mesh_doctor import DoctorConfig, HttpPlace, Protocol, Server, Status, TokenPlace, examine
from mesh_doctor._observed import TokenState
from mesh_doctor.observing._http_page import seen_clock, seen_page
from mesh_doctor.observing._listeners import listeners
from mesh_doctor.observing._programs import seen_envoy
from mesh_doctor.observing._token import seen_token
from mesh_testkit import until

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def peer(behave: Behaviour) -> AsyncIterator[HttpPlace]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await behave(reader, writer)
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield HttpPlace(host="127.0.0.1", port=port, path="/debug/status")


def answering(*parts: bytes) -> Behaviour:
    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for part in parts:
            writer.write(part)
            await writer.drain()

    return behave


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


async def dripping(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nx: ")
    while not writer.is_closing():
        writer.write(b"a")
        await writer.drain()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("behave", "words", "answered"),
    [
        (silent, "no whole answer within 0.2 s", False),
        (dripping, "no whole answer within 0.2 s", False),
        (answering(b"220 mail.example ESMTP\r\n"), "does not answer in HTTP", True),
        (
            answering(b"HTTP/1.1 404 Not Found\r\ncontent-length: 6\r\n\r\n<html>"),
            "it answers 404: a page of HTML",
            True,
        ),
        (answering(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]"), "a JSON object", True),
        (answering(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"), "not answer in HTTP", True),
        (
            answering(b"HTTP/1.1 200 OK\r\n\r\n{", b"a" * (1 << 20) * 20),
            "more than 8 MiB",
            True,
        ),
    ],
)
async def test_pages_of_other_programs(behave: Behaviour, words: str, answered: bool) -> None:  # noqa: FBT001
    async with peer(behave) as place:
        limit_s = 0.2 if behave in (silent, dripping) else 60
        page = await seen_page(place, timeout_s=limit_s)
    assert page.document is None
    assert words in page.reason
    assert (page.answered, page.refused) == (answered, False)


async def test_nothing_there_is_distinguished_from_silence(free_port: Callable[[], int]) -> None:
    place = HttpPlace(host="127.0.0.1", port=free_port(), path="/")
    page = await seen_page(place, timeout_s=60)
    assert (page.refused, page.answered) == (True, False)


@pytest.mark.parametrize("days", [-1, 0, 1])
async def test_a_clock_is_read_from_an_answers_date(days: int) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(days=days), usegmt=True).encode()
    head = b"HTTP/1.1 503 Starting\r\ndate: " + date + b"\r\ncontent-length: 9\r\n\r\n"
    async with peer(answering(head)) as place:
        seen = await seen_clock(place, timeout_s=60)
    assert seen is not None
    assert round(seen.ahead_s / 86_400) == days


async def test_an_answer_without_a_date_is_no_clock() -> None:
    async with peer(answering(b"HTTP/1.1 200 OK\r\ndate: soon\r\n\r\n")) as place:
        assert await seen_clock(place, timeout_s=60) is None


def test_listeners_are_found_with_their_process(free_port: Callable[[], int]) -> None:
    port = free_port()
    script = (
        "import socket, sys, time; at = '127.0.0.9', int(sys.argv[1]);"
        "tcp = socket.create_server(at); udp = socket.socket(type=socket.SOCK_DGRAM); udp.bind(at);"
        "print('there', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(port)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout:
        try:
            assert process.stdout.readline() == "there\n"
            found = listeners(frozenset({port}))
        finally:
            process.kill()
            process.wait()
    assert found is not None
    assert {(each.protocol, each.host, each.pid) for each in found} == {
        (Protocol.TCP, "127.0.0.9", process.pid),
        (Protocol.UDP, "127.0.0.9", process.pid),
    }
    assert all(each.program.startswith("python") for each in found)
    assert listeners(frozenset({port})) == ()


def test_ipv6_listeners_are_found() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
        port = listener.getsockname()[1]
        (found,) = listeners(frozenset({port})) or ()
    assert (found.host, found.pid) == ("::1", os.getpid())


def test_without_proc_nothing_is_claimed(tmp_path: Path) -> None:
    assert listeners(frozenset({1}), tmp_path) is None
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp").write_text("sl\nrubbish\n0: 0100007F:zz 0: 0A\n")
    assert listeners(frozenset({1}), tmp_path) == ()


async def test_the_token_itself_is_kept_out_of_what_is_seen(tmp_path: Path) -> None:
    token = jwt.encode({"exp": time.time() - 60, "sub": "x"}, "k" * 32, algorithm="HS256")
    (tmp_path / "token").write_text(token)
    seen, shown = await seen_token(tmp_path / "token", timeout_s=60)
    assert shown == token
    assert token.split(".")[2] not in repr(seen)
    assert seen.fault == "expired 60 s ago"


@pytest.mark.parametrize("kind", ["fifo", "folder", "binary", "huge", "missing"])
async def test_what_is_no_token_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "token"
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "binary":
            path.write_bytes(b"\x00\x01")
        case "huge":
            path.write_bytes(b"a" * (20 << 20))
        case _:
            assert kind == "missing"
    seen, shown = await seen_token(path, timeout_s=60)
    assert shown is None
    assert seen.state is (TokenState.MISSING if kind == "missing" else TokenState.UNREADABLE)
    assert seen.reason


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'envoy  version: abc/1.40.0/Clean/RELEASE/BoringSSL'", ""),
        ("echo hello", "is it one?"),
        ("exit 3", "ended with status 3"),
        ("yes | head -c 20000000", "is it one?"),
    ],
)
async def test_envoys(tmp_path: Path, script: str, words: str) -> None:
    binary = tmp_path / "envoy"
    binary.write_text(f"#!/bin/sh\n{script}\n")
    binary.chmod(0o755)
    seen = await seen_envoy(binary, timeout_s=60)
    assert words in seen.problem
    assert seen.version == ("" if words else "1.40.0")


async def test_an_envoy_that_hangs_is_ended(tmp_path: Path) -> None:
    binary = tmp_path / "envoy"
    binary.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    binary.chmod(0o755)
    seen = await seen_envoy(binary, timeout_s=0.5)
    assert "did not end within 0.5 s" in seen.problem
    if (tmp_path / "pid").exists():
        pid = (tmp_path / "pid").read_text().strip()
        await until(lambda: not Path("/proc", pid).exists(), what="its end")


async def test_everything_hostile_at_once_ends_and_changes_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "token")
    os.mkfifo(tmp_path / "root.pem")
    async with peer(silent) as place:
        config = DoctorConfig(
            agent=place,
            certificates=place,
            clocks=(place, place),
            servers=(
                Server(
                    serves="all",
                    address=place.address,
                    name="istiod",
                    name_setting="ISTIOD_SAN",
                    roots=tmp_path / "root.pem",
                    root_setting="XDS_ROOT_CA",
                    signs=True,
                ),
                Server(
                    serves="more",
                    address="no address",
                    name="",
                    name_setting="",
                    roots=None,
                    root_setting="",
                    signs=False,
                ),
            ),
            token=TokenPlace(path=tmp_path / "token", namespace="a", service_account="b"),
            timeout_s=0.3,
        )
        async with asyncio.timeout(60):
            findings = await examine(config)
    problems = [each for each in findings if each.status is Status.PROBLEM]
    assert {each.check for each in problems} == {"control plane", "token", "agent"}
    assert {each.name for each in tmp_path.iterdir()} == {"token", "root.pem"}
