"""What an operator reads when the authority says no or can't be reached; over gRPC and TLS."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import grpc
import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from certclient import (
    AuthorityUnavailable,
    CertClientError,
    IstioCaConfig,
    KeyType,
    SigningRefused,
    SpiffeId,
    istio_ca,
)
from certclient.testing import FakeAuthority, FakeIstioCa, fake_istio_ca
from certclient.x509._keys import new_private_key, signing_request
from mesh_lifecycle.testing import ManualClock

NOW = 1_800_000_000.0
LIFETIME = timedelta(hours=1)
FACTS = "is from issuer https://k8s.example for audience istio-ca and of subject shop:cart"


def token(**claims: object) -> str:
    good = {"iss": "https://k8s.example", "aud": ["istio-ca"], "sub": "shop:cart", "exp": NOW + 60}
    return jwt.encode({**good, **claims}, "thirty-two bytes are needed for it", algorithm="HS256")


async def refused(config: IstioCaConfig) -> str:
    """The reason that a request fails with."""
    spiffe_id = SpiffeId.parse("spiffe://cluster.local/ns/shop/sa/cart")
    request = signing_request(await new_private_key(KeyType.P256), spiffe_id)
    async with istio_ca(config, clock=Clock(NOW)) as authority:
        with pytest.raises(CertClientError) as failed:
            await authority.sign(request, lifetime=LIFETIME)
    assert isinstance(failed.value, SigningRefused | AuthorityUnavailable)
    return str(failed.value)


class Clock(ManualClock):
    """One that does not wait."""

    async def sleep(self, seconds: float) -> None:
        del seconds


@pytest.fixture
async def ca() -> AsyncIterator[FakeIstioCa]:
    async with fake_istio_ca(FakeAuthority()) as ca:
        ca.answers = [grpc.StatusCode.UNAUTHENTICATED]
        yield ca


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "does not exist, so none was sent"),
        ("", "is empty"),
        (token(exp=NOW - 720), f"expired 12 min ago, {FACTS}"),
        (token(nbf=NOW + 7200), "is not valid for another 2 h: is this machine's clock right?, "),
        (
            token(aud=["vault"], iss="https://elsewhere.example"),
            "expires in 60 s, is from issuer https://elsewhere.example for audience vault and",
        ),
        ("opaque", "is no JSON Web Token"),
    ],
    ids=["missing", "empty", "expired", "not yet valid", "foreign", "opaque"],
)
async def test_a_token_that_was_not_accepted_is_named_beside_the_authoritys_reason(
    text: str | None, said: str, ca: FakeIstioCa, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    if text is not None:
        path.write_text(text)
    reason = await refused(
        IstioCaConfig(address=ca.address, root_certificate=None, token_path=path)
    )
    assert reason.startswith(f"{ca.address} answered UNAUTHENTICATED: as told (token {path} {said}")
    assert not text or text not in reason


async def test_other_answers_say_nothing_of_the_token(ca: FakeIstioCa, tmp_path: Path) -> None:
    ca.answers = [grpc.StatusCode.INVALID_ARGUMENT]
    reason = await refused(
        IstioCaConfig(address=ca.address, root_certificate=None, token_path=tmp_path / "token")
    )
    assert reason == f"{ca.address} answered INVALID_ARGUMENT: as told"


async def signed_for(name: str, authority: FakeAuthority) -> grpc.ServerCredentials:
    key = ec.generate_private_key(ec.SECP256R1())
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([]))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=True)
        .sign(key, hashes.SHA256())
    )
    leaf, *_ = await authority.sign(request.public_bytes(Encoding.PEM), lifetime=LIFETIME)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return grpc.ssl_server_credentials([(pem, leaf)])


@asynccontextmanager
async def with_tls(name: str, authority: FakeAuthority) -> AsyncIterator[str]:
    credentials = await signed_for(name, authority)
    async with fake_istio_ca(FakeAuthority(), credentials=credentials) as ca:
        yield ca.address


async def test_a_name_mismatch_tells_the_names_there_are_and_what_sets_the_expected_one(
    tmp_path: Path,
) -> None:
    server, root = FakeAuthority(), tmp_path / "root.pem"
    root.write_bytes(server.root_pem)
    async with with_tls("istiod.istio-system.svc", server) as address:
        reason = await refused(
            IstioCaConfig(address=address, root_certificate=root, server_name_setting="ISTIOD_SAN")
        )
    assert reason == (
        f"cannot reach {address}: name mismatch: its certificate is not for 127.0.0.1, it is for "
        "istiod.istio-system.svc; ISTIOD_SAN sets the name that is expected"
    )


async def test_a_wrong_root_tells_which_is_presented_which_trusted_and_what_to_do(
    tmp_path: Path,
) -> None:
    server, before, root = FakeAuthority(), FakeAuthority(), tmp_path / "root.pem"
    root.write_bytes(before.root_pem)
    async with with_tls("127.0.0.1", server) as address:
        reason = await refused(IstioCaConfig(address=address, root_certificate=root))
    presented, trusted = key_id(server.root_pem), key_id(before.root_pem)
    assert presented != trusted
    assert f"wrong root certificate: its certificate is not signed by a root in {root}" in reason
    assert f"it is issued by O=fake root 0 (key id {presented})" in reason
    assert f"trusted is O=fake root 0 (key id {trusted}, until " in reason
    assert f"put the root that the authority's server has now into {root}" in reason


def key_id(pem: bytes) -> str:
    key = x509.load_pem_x509_certificate(pem).public_key()
    return x509.SubjectKeyIdentifier.from_public_key(key).digest[:6].hex()


async def test_an_address_without_a_server_is_named_as_the_reason(
    free_port: Callable[[], int],
) -> None:
    address = f"127.0.0.1:{free_port()}"
    reason = await refused(IstioCaConfig(address=address, root_certificate=None))
    assert reason == f"cannot reach {address}: connection refused"


@pytest.mark.parametrize("wrong", ["name", "root"])
async def test_the_command_says_it_at_once_and_grpc_says_nothing(
    wrong: str, tmp_path: Path
) -> None:
    server, root = FakeAuthority(), tmp_path / "root.pem"
    root.write_bytes((server if wrong == "name" else FakeAuthority()).root_pem)
    name = "istiod.istio-system.svc"
    async with with_tls(name, server) as address:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "certclient", "get", "--ca", address, "--timeout", "24h"),
            *("--spiffe-id", "spiffe://a/ns/b/sa/c", "--ca-root", root),
            *(() if wrong == "name" else ("--server-name", name)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()

    (line,) = output.decode().splitlines()
    assert process.returncode == 1
    assert line.startswith(f"certclient: no certificate: cannot reach {address}: ")
    if wrong == "name":
        assert line.endswith("; --server-name sets the name that is expected")
    else:
        assert ": wrong root certificate: " in line


FAILING = """
import asyncio, logging, sys
from certclient import *

async def main(address):
    ca = IstioCaConfig(address=address, root_certificate=None)
    workload = RotationConfig(spiffe_id=SpiffeId.parse("spiffe://a/ns/b/sa/c"))
    async with istio_ca(ca) as authority, keep_fresh(workload, authority) as certificates:
        said = "has not answered yet"
        while "has not answered yet" in said:
            try:
                await certificates.wait_for_first(timeout_s=1)
            except NoCertificate as error:
                said = str(error)
        print(said)

LOGGING
asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.parametrize("setup", ["", "logging.basicConfig()"])
async def test_a_program_sees_the_reason_with_logging_as_it_comes(
    setup: str, free_port: Callable[[], int]
) -> None:
    address = f"127.0.0.1:{free_port()}"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", FAILING.replace("LOGGING", setup), address),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    reason = f"cannot reach {address}: connection refused\n"
    assert output.decode() == f"no certificate within 1 s: {reason}"
    assert errors.decode().endswith(f"certificate request failed, there is no valid one: {reason}")
