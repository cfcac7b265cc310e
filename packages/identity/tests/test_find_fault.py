"""Why a server can't be reached: the kind of reason, over real sockets and handshakes."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mesh_identity import ExpectedName, Fault, TrustedRoots, Unreachable, find_fault
from mesh_testkit.certificates import Authority, Issued


@asynccontextmanager
async def server(issued: Issued | None, directory: Path) -> AsyncIterator[int]:
    """A server with this certificate, or without TLS."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if issued is None:
            writer.write(b"220 mail.example ESMTP\r\n")
        writer.close()

    tls = None
    if issued is not None:
        (directory / "chain.pem").write_bytes(issued.chain_pem)
        (directory / "key.pem").write_bytes(issued.key_pem)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(directory / "chain.pem", directory / "key.pem")
    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls) as listening:
        yield listening.sockets[0].getsockname()[1]


async def fault_of(port: int, roots: bytes, *, host: str = "127.0.0.1") -> Unreachable | None:
    return await find_fault(
        host,
        port,
        trusted=TrustedRoots(roots, "a root in FILE"),
        expected=ExpectedName("istiod", "ISTIOD_SAN"),
        timeout_s=60,
    )


async def test_a_server_that_is_right(tmp_path: Path) -> None:
    authority = Authority()
    async with server(authority.issue("istiod"), tmp_path) as port:
        assert await fault_of(port, authority.root_pem) is None


@pytest.mark.parametrize(
    ("name", "fault", "words"),
    [
        ("other", Fault.WRONG_NAME, "it is for other"),
        ("istiod", Fault.WRONG_ROOT, "not signed by a root in FILE"),
        ("istiod", Fault.EXPIRED, "has expired"),
    ],
)
async def test_certificates_that_are_wrong(
    tmp_path: Path, name: str, fault: Fault, words: str
) -> None:
    authority, expired = Authority(), fault is Fault.EXPIRED
    roots = Authority().root_pem if fault is Fault.WRONG_ROOT else authority.root_pem
    async with server(authority.issue(name, expired=expired), tmp_path) as port:
        found = await fault_of(port, roots)
    assert found is not None
    assert (found.fault, words in found.reason) == (fault, True)
    assert (found.validity is not None) == expired
    if found.validity is not None:
        assert found.validity.not_before < found.validity.not_after < datetime.now(UTC)


async def test_servers_that_are_none(tmp_path: Path, free_port: Callable[[], int]) -> None:
    roots = Authority().root_pem
    async with server(None, tmp_path) as port:
        found = await fault_of(port, roots)
    assert found is not None
    assert found.fault is Fault.NO_TLS
    refused = await fault_of(free_port(), roots)
    assert refused is not None
    assert refused.fault is Fault.REFUSED
    unresolved = await fault_of(1, roots, host="no-such-host.invalid")
    assert unresolved is not None
    assert unresolved.fault is Fault.UNRESOLVED


async def test_silence_has_an_end() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        found = await find_fault(
            "127.0.0.1",
            listening.sockets[0].getsockname()[1],
            trusted=TrustedRoots(Authority().root_pem, "a root"),
            expected=ExpectedName("istiod"),
            timeout_s=0.2,
        )
    assert found is not None
    assert (found.fault, found.reason) == (Fault.SILENT, "no answer within 0.2 s")
