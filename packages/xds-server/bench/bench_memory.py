"""What of a peak of clients stays in the server's memory, and whether it grows with each.

Compared is with a server that one client has come to and gone from: by then everything is loaded
that the first client needs. Run as a script; the server is started with `SERVER_ENVIRONMENT`, then
as usual, and then with `SERVER_ENVIRONMENT` for clients with TLS.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import ipaddress
import resource
import tempfile
from collections.abc import Mapping
from pathlib import Path

import uvloop
from bench_push import Server, close, connect, server_process
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from xds_server import SERVER_ENVIRONMENT

QUIET_S = 4.0
"""Longer than the server waits before it gives memory back."""


async def megabytes(server: Server) -> float:
    return float((await server.tell("look"))["rss_kb"]) / 1000


async def peak(server: Server, clients: int) -> tuple[float, float]:
    """Clients come, are pushed to three times, and go; the memory right after and at rest."""
    streams = await connect(server, clients)
    for _ in range(3):
        await server.tell("push")
        await asyncio.gather(*(stream.take() for stream in streams))
    most = await megabytes(server)
    await asyncio.sleep(QUIET_S)
    rest = await megabytes(server)
    await close(streams)
    await asyncio.sleep(QUIET_S)
    return most, rest


async def peaks(
    name: str,
    environment: Mapping[str, str],
    *,
    clients: int,
    rounds: int,
    certificate: Path | None = None,
) -> None:
    async with server_process(
        100, 1000, environment=environment, certificate=certificate
    ) as server:
        cold = await megabytes(server)
        await peak(server, 1)
        warm = await megabytes(server)
        print(f"memory, {name}: {cold:.1f} MB cold, {warm:.1f} MB after one client")
        for _ in range(rounds):
            most, rest = await peak(server, clients)
            left = await megabytes(server)
            print(
                f"  {clients} clients: {most:.1f} MB, "
                f"{1000 * (most - warm) / clients:.1f} kB each; at rest {rest:.1f} MB, "
                f"{1000 * (rest - warm) / clients:.1f} kB each; all gone {left:.1f} MB, "
                f"{100 * (left / warm - 1):+.0f} % of after one, {100 * (left / cold - 1):+.0f} % "
                "of cold"
            )


def make_certificate(path: Path) -> None:
    """A certificate for loopback that is its own root, and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([loopback]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + private)


async def main(arguments: argparse.Namespace) -> None:
    size = {"clients": arguments.clients, "rounds": arguments.rounds}
    await peaks("SERVER_ENVIRONMENT", SERVER_ENVIRONMENT, **size)
    await peaks("as usual", {}, **size)
    with tempfile.TemporaryDirectory() as directory:
        certificate = Path(directory) / "certificate.pem"
        make_certificate(certificate)
        await peaks("SERVER_ENVIRONMENT, TLS", SERVER_ENVIRONMENT, certificate=certificate, **size)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    uvloop.run(main(parser.parse_args()))
