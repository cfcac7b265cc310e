"""Servers that say what a test lets them say."""

import asyncio
import datetime as dt
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

sys.path.insert(0, str(Path(__file__).parent / "support"))

from probe_peers import Application, Handler, Http2Application, MakeTls, Serve


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Servers that are started with a handler and run for as long as the test."""
    tasks: set[asyncio.Task[None]] = set()
    async with AsyncExitStack() as stack:

        async def start(
            handler: Handler, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
        ) -> int:
            async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                task = asyncio.current_task()
                assert task is not None
                tasks.add(task)
                try:
                    with suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
                        await handler(reader, writer)
                finally:
                    tasks.discard(task)
                    writer.transport.abort()

            server = await asyncio.start_server(handle, host, 0, ssl=tls)
            stack.callback(server.close)
            port: int = server.sockets[0].getsockname()[1]
            return port

        yield start
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


@pytest.fixture
def application() -> Application:
    return Application()


@pytest.fixture
def http2_application() -> Http2Application:
    return Http2Application()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate that expired and that no client trusts, with its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "elsewhere")])
    not_before = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(not_before)
        .not_valid_after(not_before + dt.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    file = tmp_path_factory.mktemp("tls") / "certificate.pem"
    file.write_bytes(
        signed.public_bytes(pem)
        + key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return file


@pytest.fixture
def tls(certificate: Path) -> MakeTls:
    """Make a server's context: `tls("h2", "http/1.1")`."""

    def make(*protocols: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        if protocols:
            context.set_alpn_protocols(protocols)
        return context

    return make
