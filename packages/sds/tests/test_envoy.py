"""A real Envoy whose listener takes its certificate and its trust bundle from us."""

import asyncio
import ipaddress
import json
import os
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from mesh_sds import (
    AllowedPeers,
    KeyAccelerator,
    PrivateKeyProvider,
    SdsConfig,
    TlsCertificate,
    TrustBundle,
    serving,
)
from mesh_sds.testing import FakeSecrets

REQUEST = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"


@dataclass(frozen=True)
class Issued:
    """A certificate as a secret, and what a test knows it by."""

    secret: TlsCertificate
    serial: int


class Issuer:
    """A root that signs certificates for localhost."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name(
            [x509.NameAttribute(NameOID.ORGANIZATION_NAME, f"root {id(self._key)}")]
        )
        self._root = self._sign(self._name, self._key.public_key(), ca=True)

    @property
    def bundle(self) -> TrustBundle:
        return TrustBundle(roots_pem=self._root.public_bytes(Encoding.PEM))

    def bundle_revoking(self, *serials: int) -> TrustBundle:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._name)
            .last_update(now - timedelta(hours=1))
            .next_update(now + timedelta(hours=1))
            .add_extension(x509.CRLNumber(1), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        for serial in serials:
            builder = builder.add_revoked_certificate(
                x509.RevokedCertificateBuilder()
                .serial_number(serial)
                .revocation_date(now - timedelta(minutes=1))
                .build()
            )
        crl = builder.sign(self._key, hashes.SHA256())
        return TrustBundle(roots_pem=self.bundle.roots_pem, crl_pem=crl.public_bytes(Encoding.PEM))

    def issue(self) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(x509.Name([]), key.public_key(), ca=False)
        return Issued(
            secret=TlsCertificate(
                chain_pem=certificate.public_bytes(Encoding.PEM),
                private_key_pem=key.private_bytes(
                    Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
                ),
            ),
            serial=certificate.serial_number,
        )

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *, ca: bool
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
            .add_extension(
                x509.KeyUsage(
                    digital_signature=not ca,
                    content_commitment=False,
                    key_encipherment=False,
                    data_encipherment=False,
                    key_agreement=False,
                    key_cert_sign=ca,
                    crl_sign=ca,
                    encipher_only=False,
                    decipher_only=False,
                ),
                critical=True,
            )
        )
        if not ca:
            names = x509.SubjectAlternativeName(
                [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            )
            builder = builder.add_extension(names, critical=True)
        return builder.sign(self._key, hashes.SHA256())


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


class AskedSecrets(FakeSecrets):
    """Tells when a name was asked for the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = {"default": asyncio.Event(), "ROOTCA": asyncio.Event()}

    def get(self, name: str) -> TlsCertificate | TrustBundle | None:
        self.asked[name].set()
        return super().get(name)


def bootstrap(socket_path: Path, port: int, api_type: str) -> dict[str, Any]:
    def secret(name: str) -> dict[str, Any]:
        source = {
            "resource_api_version": "V3",
            "initial_fetch_timeout": "0s",
            "api_config_source": {
                "api_type": api_type,
                "transport_api_version": "V3",
                "grpc_services": [{"envoy_grpc": {"cluster_name": "sds"}}],
            },
        }
        return {"name": name, "sds_config": source}

    http: dict[str, Any] = {
        "@type": "type.googleapis.com/envoy.extensions.filters.network"
        ".http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "in",
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [
                        {
                            "match": {"prefix": "/"},
                            "direct_response": {"status": 200, "body": {"inline_string": "ok"}},
                        }
                    ],
                }
            ]
        },
        "http_filters": [
            {
                "name": "router",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"
                },
            }
        ],
    }
    tls = {
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3"
        ".DownstreamTlsContext",
        "require_client_certificate": True,
        "common_tls_context": {
            "tls_certificate_sds_secret_configs": [secret("default")],
            "validation_context_sds_secret_config": secret("ROOTCA"),
        },
    }
    address = {"socket_address": {"address": "127.0.0.1", "port_value": port}}
    return {
        "node": {"id": "envoy", "cluster": "test"},
        "static_resources": {
            "listeners": [
                {
                    "name": "in",
                    "address": address,
                    "filter_chains": [
                        {
                            "filters": [{"name": "http", "typed_config": http}],
                            "transport_socket": {"name": "tls", "typed_config": tls},
                        }
                    ],
                }
            ],
            "clusters": [
                {
                    "name": "sds",
                    "connect_timeout": "1s",
                    "typed_extension_protocol_options": {
                        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3"
                            ".HttpProtocolOptions",
                            "explicit_http_config": {"http2_protocol_options": {}},
                        }
                    },
                    "load_assignment": {
                        "cluster_name": "sds",
                        "endpoints": [
                            {
                                "lb_endpoints": [
                                    {"endpoint": {"address": {"pipe": {"path": str(socket_path)}}}}
                                ]
                            }
                        ],
                    },
                }
            ],
        },
    }


@dataclass
class RunningEnvoy:
    """An Envoy process and the port of its listener."""

    log: asyncio.StreamReader
    port: int
    pid: int
    seen: list[bytes]

    async def wait_for_log(self, words: bytes) -> None:
        line = b""
        while words not in line:
            line = await self.log.readline()
            self.seen.append(line)
            assert line, "Envoy ended"


@asynccontextmanager
async def running_envoy(
    binary: Path, directory: Path, config: dict[str, Any], port: int
) -> AsyncIterator[RunningEnvoy]:
    path = directory / "bootstrap.json"
    path.write_text(json.dumps(config))
    process = await asyncio.create_subprocess_exec(
        binary,
        "--config-path",
        path,
        "--concurrency",
        "1",
        "--disable-hot-restart",
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    envoy = RunningEnvoy(log=process.stderr, port=port, pid=process.pid, seen=[])
    try:
        yield envoy
    finally:
        process.kill()
        _, rest = await process.communicate()
        # Shown with a failed test.
        sys.stdout.write(b"".join((*envoy.seen, rest or b"")).decode(errors="replace"))


class Connection:
    """One TLS connection to the listener."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @property
    def serial(self) -> int:
        tls = self._writer.get_extra_info("ssl_object")
        return x509.load_der_x509_certificate(tls.getpeercert(binary_form=True)).serial_number

    async def ask(self) -> None:
        self._writer.write(REQUEST)
        head = await self._reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        assert await self._reader.readexactly(2) == b"ok"

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


@asynccontextmanager
async def connected(port: int, context: ssl.SSLContext) -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    connection = Connection(reader, writer)
    try:
        yield connection
    finally:
        await connection.close()


def client_context(directory: Path, issued: Issued, *roots: TrustBundle) -> ssl.SSLContext:
    path = directory / "client.pem"
    path.write_bytes(issued.secret.private_key_pem + issued.secret.chain_pem)
    context = ssl.create_default_context(
        cadata="".join(bundle.roots_pem.decode() for bundle in roots)
    )
    context.load_cert_chain(path)
    return context


async def wait_for_serial(port: int, context: ssl.SSLContext, serial: int) -> None:
    """Shake hands until the listener shows this certificate and takes ours.

    Workers that were told to start may take a moment to listen.
    """
    while True:
        with suppress(ConnectionRefusedError):
            async with connected(port, context) as connection:
                await connection.ask()
                if connection.serial == serial:
                    return


@pytest.mark.parametrize(
    ("api_type", "allow"),
    [
        ("GRPC", None),
        ("DELTA_GRPC", None),
        ("GRPC", AllowedPeers(uids=frozenset({os.geteuid()}))),
        ("DELTA_GRPC", AllowedPeers(uids=frozenset({os.geteuid()}))),
    ],
)
async def test_envoy_serves_each_rotation_and_old_connections_live_on(
    *,
    api_type: str,
    allow: AllowedPeers | None,
    socket_dir: Path,
    tmp_path: Path,
    issuer: Issuer,
    envoy_binary: Path,
    free_port: Callable[..., int],
) -> None:
    secrets = AskedSecrets()
    socket_path, port = socket_dir / "sds" / "socket", free_port()
    config = bootstrap(socket_path, port, api_type)
    first, second = issuer.issue(), issuer.issue()
    context = client_context(tmp_path, issuer.issue(), issuer.bundle)
    async with (
        asyncio.timeout(60),
        serving(SdsConfig(socket_path=socket_path, allow=allow), secrets) as server,
        running_envoy(envoy_binary, tmp_path, config, port) as envoy,
    ):
        # Envoy is there before the secrets are, and waits for them.
        for asked in secrets.asked.values():
            await asked.wait()
        secrets.set(default=first.secret, ROOTCA=issuer.bundle)
        await envoy.wait_for_log(b"starting workers")
        await wait_for_serial(port, context, first.serial)
        async with connected(port, context) as old:
            await old.ask()
            assert old.serial == first.serial

            secrets.set(default=second.secret)
            await wait_for_serial(port, context, second.serial)
            await old.ask()
            assert old.serial == first.serial

            # A new root arrives before the certificate that chains to it.
            successor = Issuer()
            third = successor.issue()
            both = TrustBundle(roots_pem=issuer.bundle.roots_pem + successor.bundle.roots_pem)
            secrets.set(default=third.secret, ROOTCA=both)
            trusting_both = client_context(tmp_path, issuer.issue(), both)
            await wait_for_serial(port, trusting_both, third.serial)
            of_successor = client_context(tmp_path, successor.issue(), both)
            await wait_for_serial(port, of_successor, third.serial)
            await old.ask()
        # What is said to be in use is what was seen on the wire.
        await server.wait_until(lambda told: all(s.in_sync for s in told))
        subscribers = server.subscribers()
        in_use = {d.name: d.accepted for s in subscribers for d in s.secrets}
        assert in_use["default"] is not None
        assert in_use["default"].serial == f"{third.serial:x}"
        if allow is not None:
            assert {s.process.pid for s in subscribers if s.process} == {envoy.pid}
        assert frozenset.union(*(s.names for s in subscribers)) == {"default", "ROOTCA"}
        assert [s.refusal for s in subscribers] == [None] * len(subscribers)


async def test_a_secret_envoy_cannot_use_is_refused_and_the_old_one_stays(
    *,
    socket_dir: Path,
    tmp_path: Path,
    issuer: Issuer,
    secrets: FakeSecrets,
    envoy_binary: Path,
    free_port: Callable[..., int],
) -> None:
    socket_path, port = socket_dir / "sds" / "socket", free_port()
    first, second = issuer.issue(), issuer.issue()
    secrets.set(default=first.secret, ROOTCA=issuer.bundle)
    context = client_context(tmp_path, issuer.issue(), issuer.bundle)
    async with (
        asyncio.timeout(60),
        serving(SdsConfig(socket_path=socket_path), secrets) as server,
        running_envoy(envoy_binary, tmp_path, bootstrap(socket_path, port, "GRPC"), port) as envoy,
    ):
        await envoy.wait_for_log(b"starting workers")
        mismatched = TlsCertificate(
            chain_pem=first.secret.chain_pem, private_key_pem=second.secret.private_key_pem
        )
        secrets.set(default=mismatched)
        while not any(subscriber.refusals for subscriber in server.subscribers()):
            await wait_for_serial(port, context, first.serial)
        secrets.set(default=second.secret)
        await wait_for_serial(port, context, second.serial)


async def test_a_revoked_client_is_refused_as_soon_as_the_list_is_there(
    *,
    socket_path: Path,
    tmp_path: Path,
    issuer: Issuer,
    secrets: FakeSecrets,
    envoy_binary: Path,
    free_port: Callable[..., int],
) -> None:
    port = free_port()
    server_side, good, bad = issuer.issue(), issuer.issue(), issuer.issue()
    secrets.set(default=server_side.secret, ROOTCA=issuer.bundle)
    (tmp_path / "good").mkdir()
    (tmp_path / "bad").mkdir()
    as_good = client_context(tmp_path / "good", good, issuer.bundle)
    as_bad = client_context(tmp_path / "bad", bad, issuer.bundle)
    async with (
        asyncio.timeout(60),
        serving(SdsConfig(socket_path=socket_path), secrets) as server,
        running_envoy(envoy_binary, tmp_path, bootstrap(socket_path, port, "GRPC"), port) as envoy,
    ):
        await envoy.wait_for_log(b"starting workers")
        await wait_for_serial(port, as_bad, server_side.serial)
        before = {d.sent for s in server.subscribers() for d in s.secrets if d.name == "ROOTCA"}
        secrets.set(ROOTCA=issuer.bundle_revoking(bad.serial))
        await server.wait_until(
            lambda told: all(
                d.in_sync and d.sent not in before
                for s in told
                for d in s.secrets
                if d.name == "ROOTCA"
            )
        )
        # An accepted list is in use by each worker a moment later.
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            while True:
                await wait_for_serial(port, as_bad, server_side.serial)
        await wait_for_serial(port, as_good, server_side.serial)


async def test_an_envoy_without_the_accelerator_refuses_the_key_and_that_is_shown(
    *,
    socket_path: Path,
    tmp_path: Path,
    issuer: Issuer,
    secrets: FakeSecrets,
    envoy_binary: Path,
    free_port: Callable[..., int],
) -> None:
    port = free_port()
    secrets.set(default=issuer.issue().secret, ROOTCA=issuer.bundle)
    provider = PrivateKeyProvider(
        accelerator=KeyAccelerator.CRYPTOMB, poll_delay=timedelta(milliseconds=10), fallback=True
    )
    sds = SdsConfig(socket_path=socket_path, private_key_provider=provider)
    async with (
        asyncio.timeout(60),
        serving(sds, secrets) as server,
        running_envoy(envoy_binary, tmp_path, bootstrap(socket_path, port, "GRPC"), port),
    ):
        await server.wait_until(lambda told: any(s.refusal for s in told))
        (refusal,) = (s.refusal for s in server.subscribers() if s.refusal)
        assert "cryptomb" in refusal
