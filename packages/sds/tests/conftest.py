"""What the tests here share."""

import sys
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from mesh_sds import AllowedPeers, SdsConfig, SdsServer, TlsCertificate, serving
from mesh_sds.testing import FakeSecrets

sys.path.insert(0, str(Path(__file__).parent / "support"))


@pytest.fixture
def secrets() -> FakeSecrets:
    return FakeSecrets()


@pytest.fixture
def socket_path(socket_dir: Path) -> Path:
    return socket_dir / "sds" / "socket"


@pytest.fixture(params=["direct", "checked"])
async def server(
    request: pytest.FixtureRequest, socket_path: Path, secrets: FakeSecrets
) -> AsyncIterator[SdsServer]:
    """A server as it is, and one that checks who connects."""
    allow = AllowedPeers() if request.param == "checked" else None
    async with serving(SdsConfig(socket_path=socket_path, allow=allow), secrets) as server:
        yield server


@pytest.fixture
def issue() -> Callable[[int], TlsCertificate]:
    """Make a self-signed certificate with a serial number of one's own choice."""

    def make(serial: int) -> TlsCertificate:
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(x509.Name([]))
            .public_key(key.public_key())
            .serial_number(serial)
            .not_valid_before(now)
            .not_valid_after(now + timedelta(hours=1))
            .sign(key, hashes.SHA256())
        )
        return TlsCertificate(
            chain_pem=certificate.public_bytes(Encoding.PEM),
            private_key_pem=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        )

    return make
