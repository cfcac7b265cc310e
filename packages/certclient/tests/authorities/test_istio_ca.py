"""The Istio CA client against a real gRPC server, over TCP and TLS."""

import asyncio
import ipaddress
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import grpc.aio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from certclient import (
    SYSTEM,
    AuthorityUnavailable,
    CertClientError,
    IstioCaConfig,
    KeyType,
    OutputFilesConfig,
    RenewalFailed,
    RotationConfig,
    SigningRefused,
    SpiffeId,
    istio_ca,
    keep_fresh,
    write_files,
)
from certclient.testing import FakeAuthority
from certclient.x509._keys import new_private_key, signing_request
from mesh_lifecycle import Backoff, SystemClock
from mesh_protos import CREATE_CERTIFICATE
from mesh_protos.ca_pb2 import IstioCertificateRequest, IstioCertificateResponse
from mesh_testkit import hanging_mount
from mesh_testkit.http2 import gzip_bomb, lying_server

SERVER_NAME = "istiod.istio-system.svc"
LIFETIME = timedelta(hours=1)
Context = grpc.aio.ServicerContext[IstioCertificateRequest, IstioCertificateResponse]


@dataclass
class Pair:
    """A self-signed certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


def self_signed(name: str, *, lifetime: timedelta = timedelta(days=1)) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    start = datetime.now(UTC) - timedelta(days=2)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(datetime.now(UTC) + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.DNSName(name), x509.IPAddress(ipaddress.ip_address("127.0.0.9"))]
            ),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    return Pair(
        certificate=certificate.public_bytes(Encoding.PEM),
        key=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


@dataclass
class Service:
    """What the server saw, and what it is to do before it signs."""

    authority: FakeAuthority = field(default_factory=FakeAuthority)
    requests: list[IstioCertificateRequest] = field(default_factory=list)
    metadata: list[dict[str, str]] = field(default_factory=list)
    client_certificates: list[bytes] = field(default_factory=list)
    answers: list[grpc.StatusCode] = field(default_factory=list)
    chain: list[str] | None = None

    async def create_certificate(
        self, request: IstioCertificateRequest, context: Context
    ) -> IstioCertificateResponse:
        self.requests.append(request)
        self.metadata.append({k: str(v) for k, v in context.invocation_metadata() or ()})
        self.client_certificates += context.auth_context().get("x509_pem_cert", ())
        if self.answers:
            await context.abort(self.answers.pop(0), "as told")
        if self.chain is not None:
            return IstioCertificateResponse(cert_chain=self.chain)
        chain = await self.authority.sign(
            request.csr.encode(), lifetime=timedelta(seconds=request.validity_duration)
        )
        return IstioCertificateResponse(cert_chain=[part.decode() for part in chain])


@asynccontextmanager
async def serving(
    service: Service, credentials: grpc.ServerCredentials | None = None, port: int = 0
) -> AsyncIterator[str]:
    server = grpc.aio.server()
    _, _, method = CREATE_CERTIFICATE.partition("IstioCertificateService/")
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(
                "istio.v1.auth.IstioCertificateService",
                {
                    method: grpc.unary_unary_rpc_method_handler(
                        service.create_certificate,
                        request_deserializer=IstioCertificateRequest.FromString,
                        response_serializer=IstioCertificateResponse.SerializeToString,
                    )
                },
            ),
        )
    )
    address = f"127.0.0.1:{port}"
    if credentials is None:
        bound = server.add_insecure_port(address)
    else:
        bound = server.add_secure_port(address, credentials)
    await server.start()
    try:
        yield f"127.0.0.1:{bound}"
    finally:
        await server.stop(None)


def tls(pair: Pair, client_roots: bytes | None = None) -> grpc.ServerCredentials:
    return grpc.ssl_server_credentials(
        [(pair.key, pair.certificate)],
        root_certificates=client_roots,
        require_client_auth=client_roots is not None,
    )


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
async def plaintext(service: Service) -> AsyncIterator[str]:
    async with serving(service) as address:
        yield address


@pytest.fixture
async def csr(spiffe_id: SpiffeId) -> bytes:
    return signing_request(await new_private_key(KeyType.P256), spiffe_id)


class Hurried(SystemClock):
    """A clock on which waiting takes no time; it remembers how long each wait was to be."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


async def signed_with(
    config: IstioCaConfig, csr: bytes, clock: Hurried | None = None
) -> tuple[bytes, ...]:
    async with istio_ca(config, clock=clock or Hurried()) as authority:
        return await authority.sign(csr, lifetime=LIFETIME)


async def test_the_request_carries_what_the_service_needs(
    service: Service, plaintext: str, csr: bytes, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(" first-token\n")
    config = IstioCaConfig(
        address=plaintext,
        root_certificate=None,
        token_path=token,
        cluster_id="Kubernetes",
        headers=(("X-Region", "north"),),
        cert_signer="signer.example/mesh",
    )
    chain = await signed_with(config, csr)
    assert len(chain) == 2
    assert service.requests[0].csr.encode() == csr
    assert service.requests[0].validity_duration == 3600
    assert service.requests[0].metadata["CertSigner"] == "signer.example/mesh"
    sent = service.metadata[0]
    assert sent["clusterid"] == "Kubernetes"
    assert sent["authorization"] == "Bearer first-token"
    assert sent["x-region"] == "north"


async def test_the_token_is_read_for_every_call(
    service: Service, plaintext: str, csr: bytes, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    config = IstioCaConfig(address=plaintext, root_certificate=None, token_path=token)
    async with istio_ca(config, clock=Hurried()) as authority:
        await authority.sign(csr, lifetime=LIFETIME)
        for text in ("one", "two\n"):
            token.write_text(text)
            await authority.sign(csr, lifetime=LIFETIME)
    assert "authorization" not in service.metadata[0]
    assert [sent["authorization"] for sent in service.metadata[1:]] == ["Bearer one", "Bearer two"]


@pytest.mark.parametrize("is_root", [True, False])
async def test_a_fifo_is_reported_in_a_sentence(
    plaintext: str, csr: bytes, tmp_path: Path, *, is_root: bool
) -> None:
    os.mkfifo(tmp_path / "fifo")
    fifo = tmp_path / "fifo"
    config = IstioCaConfig(
        address=plaintext,
        root_certificate=fifo if is_root else None,
        token_path=None if is_root else fifo,
    )
    async with asyncio.timeout(60):
        with pytest.raises(AuthorityUnavailable, match="it is a FIFO, a regular file is needed"):
            await signed_with(config, csr)


async def test_a_command_ends_in_time_though_its_token_is_on_a_mount_that_hangs(
    tmp_path: Path,
) -> None:
    with hanging_mount(tmp_path) as mount:
        for more, stopped_by in (("--timeout=1s", None), ("--timeout=600s", signal.SIGTERM)):
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "certclient", "get", "--plaintext", more, "--wait"),
                *("--ca", "127.0.0.1:9", "--token", str(mount / "token")),
                *("--spiffe-id", "spiffe://cluster.local/ns/shop/sa/cart"),
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
            async with asyncio.timeout(60):
                if stopped_by is not None:
                    await asyncio.sleep(2)  # until it reads
                    process.send_signal(stopped_by)
                _, said = await process.communicate()
            assert process.returncode != 0
            assert b"usage:" not in said, said.decode()


async def test_a_token_that_cannot_be_read_or_sent_is_named(
    plaintext: str, csr: bytes, tmp_path: Path
) -> None:
    config = IstioCaConfig(address=plaintext, root_certificate=None, token_path=tmp_path)
    with pytest.raises(AuthorityUnavailable, match="cannot be read: it is a directory"):
        await signed_with(config, csr)
    (tmp_path / "token").write_text("two\nlines")
    config = replace(config, token_path=tmp_path / "token")
    with pytest.raises(AuthorityUnavailable, match="expected one word") as refused:
        await signed_with(config, csr)
    assert "lines of" not in repr(refused.value.__cause__)


@pytest.mark.parametrize(
    "code",
    [
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
    ],
)
async def test_passing_trouble_is_asked_again(
    code: grpc.StatusCode, service: Service, plaintext: str, csr: bytes
) -> None:
    service.answers = [code]
    chain = await signed_with(IstioCaConfig(address=plaintext, root_certificate=None), csr)
    assert len(chain) == 2
    assert len(service.requests) == 2


async def test_trouble_that_stays_is_given_up_after_five_tries(
    service: Service, plaintext: str, csr: bytes
) -> None:
    service.answers = [grpc.StatusCode.UNAVAILABLE] * 9
    clock = Hurried()
    with pytest.raises(AuthorityUnavailable, match="answered UNAVAILABLE: as told"):
        await signed_with(IstioCaConfig(address=plaintext, root_certificate=None), csr, clock)
    assert len(service.requests) == 5
    assert clock.waits == [pytest.approx(wait, rel=0.1) for wait in (0.1, 0.2, 0.4, 0.8)]


@pytest.mark.parametrize(
    "code",
    [
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.UNKNOWN,
    ],
)
async def test_a_refusal_is_final_at_once(
    code: grpc.StatusCode, service: Service, plaintext: str, csr: bytes
) -> None:
    service.answers = [code]
    with pytest.raises(SigningRefused, match=f"answered {code.name}: as told"):
        await signed_with(IstioCaConfig(address=plaintext, root_certificate=None), csr)
    assert len(service.requests) == 1


@pytest.mark.parametrize("chain", [[], ["leaf only"]])
async def test_a_chain_without_a_root_is_refused(
    chain: list[str], service: Service, plaintext: str, csr: bytes
) -> None:
    service.chain = chain
    with pytest.raises(SigningRefused, match=f"a chain of {len(chain)} certificates"):
        await signed_with(IstioCaConfig(address=plaintext, root_certificate=None), csr)


async def test_a_wrong_token_is_reported_and_the_certificate_stays(
    service: Service, plaintext: str, tmp_path: Path, config: RotationConfig
) -> None:
    (tmp_path / "token").write_text("right")
    client = IstioCaConfig(
        address=plaintext, root_certificate=None, token_path=tmp_path / "token", cluster_id="c"
    )
    async with istio_ca(client) as authority, keep_fresh(config, authority) as certificates:
        first = await certificates.wait_for_first()
        (tmp_path / "token").write_text("wrong")
        service.answers = [grpc.StatusCode.UNAUTHENTICATED]
        with pytest.raises(RenewalFailed, match="answered UNAUTHENTICATED: as told"):
            await certificates.renew()
        assert certificates.latest is first
        assert [sent["authorization"] for sent in service.metadata] == [
            "Bearer right",
            "Bearer wrong",
        ]


async def test_a_silent_server_is_given_up_in_time(
    service: Service, plaintext: str, csr: bytes
) -> None:
    service.authority.hang()
    config = IstioCaConfig(address=plaintext, root_certificate=None, timeout_s=0.05)
    clock = Hurried()
    with pytest.raises(AuthorityUnavailable, match="DEADLINE_EXCEEDED"):
        await signed_with(config, csr, clock)
    # Five tries; whether a server comes to look at each within its time is the server's affair.
    assert len(clock.waits) == 4
    assert len(service.requests) <= 5


async def test_an_address_without_a_server_is_unavailable(
    csr: bytes, free_port: Callable[..., int]
) -> None:
    config = IstioCaConfig(address=f"127.0.0.1:{free_port()}", root_certificate=None)
    with pytest.raises(AuthorityUnavailable, match=r"cannot reach .*: connection refused"):
        await signed_with(config, csr)


@pytest.fixture
def root_path(tmp_path: Path) -> Path:
    return tmp_path / "root-cert.pem"


def put(path: Path, content: bytes) -> None:
    path.write_bytes(content)


async def test_the_server_is_known_by_its_name_and_root(
    service: Service, csr: bytes, root_path: Path
) -> None:
    pair = self_signed(SERVER_NAME)
    put(root_path, pair.certificate)
    async with serving(service, tls(pair)) as address:
        config = IstioCaConfig(address=address, root_certificate=root_path, server_name=SERVER_NAME)
        assert len(await signed_with(config, csr)) == 2
        with pytest.raises(AuthorityUnavailable):
            await signed_with(replace(config, server_name="other.example"), csr)
        with pytest.raises(AuthorityUnavailable):
            await signed_with(replace(config, server_name=None), csr)
        with pytest.raises(AuthorityUnavailable):
            await signed_with(replace(config, root_certificate=None), csr)
    assert len(service.requests) == 1


async def test_a_renewed_root_is_used_by_the_next_try(
    service: Service, csr: bytes, root_path: Path
) -> None:
    config = IstioCaConfig(
        address="ca.example:15012", root_certificate=root_path, server_name=SERVER_NAME
    )
    with pytest.raises(AuthorityUnavailable, match=r"root-cert\.pem does not exist"):
        await signed_with(config, csr)
    put(root_path, b"not yet")
    with pytest.raises(AuthorityUnavailable, match="holds no PEM certificate"):
        await signed_with(config, csr)
    pair = self_signed(SERVER_NAME)
    put(root_path, self_signed(SERVER_NAME).certificate)
    async with (
        serving(service, tls(pair)) as address,
        istio_ca(replace(config, address=address), clock=Hurried()) as authority,
    ):
        with pytest.raises(AuthorityUnavailable):
            await authority.sign(csr, lifetime=LIFETIME)
        put(root_path, pair.certificate)
        assert len(await authority.sign(csr, lifetime=LIFETIME)) == 2


async def test_a_client_certificate_is_shown_once_it_is_there(
    service: Service, csr: bytes, root_path: Path, tmp_path: Path
) -> None:
    server, client = self_signed(SERVER_NAME), self_signed("workload")
    put(root_path, server.certificate)
    async with serving(service, tls(server, client.certificate)) as address:
        config = IstioCaConfig(
            address=address,
            root_certificate=root_path,
            server_name=SERVER_NAME,
            client_certificate_path=tmp_path / "cert-chain.pem",
            client_key_path=tmp_path / "key.pem",
        )
        async with istio_ca(config, clock=Hurried()) as authority:
            with pytest.raises(AuthorityUnavailable):
                await authority.sign(csr, lifetime=LIFETIME)
            (tmp_path / "cert-chain.pem").write_bytes(client.certificate)
            (tmp_path / "key.pem").write_bytes(client.key)
            await authority.sign(csr, lifetime=LIFETIME)
    assert service.client_certificates == [client.certificate]


async def test_a_refusal_names_the_client_certificate_only_if_it_was_shown(
    service: Service, csr: bytes, root_path: Path, tmp_path: Path
) -> None:
    server, client = self_signed(SERVER_NAME), self_signed("workload")
    put(root_path, server.certificate)
    chain, key = tmp_path / "cert-chain.pem", tmp_path / "key.pem"
    service.answers = [grpc.StatusCode.UNAUTHENTICATED] * 2
    async with serving(service, tls(server)) as address:
        config = IstioCaConfig(
            address=address,
            root_certificate=root_path,
            server_name=SERVER_NAME,
            client_certificate_path=chain,
            client_key_path=key,
        )
        absent = f"(no token was sent; no client certificate was shown, as {chain} does not exist)"
        with pytest.raises(SigningRefused, match=re.escape(absent)):
            await signed_with(config, csr)
        chain.write_bytes(client.certificate)
        key.write_bytes(client.key)
        shown = f"(no token was sent; client certificate {chain})"
        with pytest.raises(SigningRefused, match=re.escape(shown)):
            await signed_with(config, csr)


async def test_a_machine_that_writes_its_certificate_where_it_is_provisioned_needs_no_token_again(
    service: Service, root_path: Path, tmp_path: Path, config: RotationConfig
) -> None:
    """First boot with a token; after that the last certificate, which is renewed all the same."""
    server, directory = self_signed(SERVER_NAME), tmp_path / "certs"
    put(root_path, server.certificate)
    (tmp_path / "token").write_text("first-boot")
    client = IstioCaConfig(
        address="ca.example:15012",
        root_certificate=root_path,
        server_name=SERVER_NAME,
        token_path=tmp_path / "token",
        client_certificate_path=directory / "cert-chain.pem",
        client_key_path=directory / "key.pem",
    )
    output = OutputFilesConfig(directory=directory)
    async with (
        serving(service, tls(server)) as address,
        istio_ca(replace(client, address=address)) as authority,
        keep_fresh(config, authority) as certificates,
    ):
        first = await certificates.wait_for_first()
    write_files(output, first)
    assert service.metadata[-1]["authorization"] == "Bearer first-boot"
    (tmp_path / "token").unlink()
    roots = service.authority.root_pem
    async with (
        serving(service, tls(server, roots)) as address,
        istio_ca(replace(client, address=address)) as authority,
        keep_fresh(config, authority) as certificates,
    ):
        second = await certificates.wait_for_first()
        write_files(output, second)
        third = await certificates.renew()
    assert "authorization" not in service.metadata[-1]
    assert service.client_certificates == [first.chain_pem, second.chain_pem]
    assert len({first.serial, second.serial, third.serial}) == 3


async def test_the_roots_of_the_machine_are_used_when_asked_for(
    service: Service, csr: bytes
) -> None:
    async with serving(service, tls(self_signed(SERVER_NAME))) as address:
        config = IstioCaConfig(address=address, root_certificate=SYSTEM, server_name=SERVER_NAME)
        # None of them vouches for our server; and where there are none at all, that is reported.
        with pytest.raises(AuthorityUnavailable):
            await signed_with(config, csr)
    assert service.requests == []


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
async def test_the_environment_says_where_the_roots_of_the_machine_are(
    variable: str,
    service: Service,
    csr: bytes,
    root_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = self_signed(SERVER_NAME)
    put(root_path, server.certificate)
    place = root_path if variable == "SSL_CERT_FILE" else root_path.parent
    monkeypatch.setenv(variable, str(place))
    async with serving(service, tls(server)) as address:
        config = IstioCaConfig(address=address, root_certificate=SYSTEM, server_name=SERVER_NAME)
        assert await signed_with(config, csr)
    assert (root_path in config.files) is (variable == "SSL_CERT_FILE")
    monkeypatch.setenv("SSL_CERT_FILE", str(root_path.parent / "nowhere.pem"))
    with pytest.raises(
        AuthorityUnavailable, match=r"nowhere\.pem \(SSL_CERT_FILE\) does not exist"
    ):
        await signed_with(config, csr)


@pytest.mark.parametrize("what", ["expired", "mismatched", "garbage"])
async def test_a_useless_client_certificate_is_left_out(
    what: str, service: Service, csr: bytes, root_path: Path, tmp_path: Path
) -> None:
    server = self_signed(SERVER_NAME)
    put(root_path, server.certificate)
    expired = self_signed("workload", lifetime=timedelta(hours=-1))
    material = {
        "expired": (expired.certificate, expired.key),
        "mismatched": (self_signed("workload").certificate, self_signed("workload").key),
        "garbage": (b"garbage", b"garbage"),
    }
    (tmp_path / "cert-chain.pem").write_bytes(material[what][0])
    (tmp_path / "key.pem").write_bytes(material[what][1])
    async with serving(service, tls(server)) as address:
        config = IstioCaConfig(
            address=address,
            root_certificate=root_path,
            server_name=SERVER_NAME,
            client_certificate_path=tmp_path / "cert-chain.pem",
            client_key_path=tmp_path / "key.pem",
        )
        await signed_with(config, csr)
    assert service.client_certificates == []


async def test_headers_that_grpc_cannot_send_are_refused_early() -> None:
    for name, value in (("", "a"), ("x-BIN", "a"), ("x", "a\nb"), ("x y", "a")):
        with pytest.raises(ValueError, match="header"):
            IstioCaConfig(address="ca:15012", root_certificate=None, headers=((name, value),))


async def test_rotation_through_a_server_that_goes_and_comes_back_with_another_root(
    service: Service, spiffe_id: SpiffeId, root_path: Path, free_port: Callable[..., int]
) -> None:
    old, new = self_signed(SERVER_NAME), self_signed(SERVER_NAME)
    put(root_path, old.certificate)
    rotation = RotationConfig(
        spiffe_id=spiffe_id, lifetime=LIFETIME, backoff=Backoff(initial_s=0.05, maximum_s=0.2)
    )
    port = free_port()
    async with AsyncExitStack() as stack, AsyncExitStack() as first_server:
        address = await first_server.enter_async_context(serving(service, tls(old), port))
        config = IstioCaConfig(address=address, root_certificate=root_path, server_name=SERVER_NAME)
        authority = await stack.enter_async_context(istio_ca(config, clock=Hurried()))
        certificates = await stack.enter_async_context(keep_fresh(rotation, authority))
        first = await certificates.wait_for_first()

        await first_server.aclose()
        with pytest.raises(RenewalFailed, match=r"cannot reach .*: connection refused"):
            await certificates.renew()

        await stack.enter_async_context(serving(service, tls(new), port))
        with pytest.raises(RenewalFailed, match=r"cannot reach .*: wrong root certificate"):
            await certificates.renew()
        assert certificates.latest is first

        put(root_path, new.certificate)
        second = await certificates.renew()
        assert second.serial != first.serial


async def test_a_compressed_answer_is_refused_and_not_unpacked(csr: bytes) -> None:
    async with lying_server(gzip_bomb(50_000), {"grpc-encoding": "gzip"}) as server:
        with pytest.raises(CertClientError, match="gzip"):
            await signed_with(IstioCaConfig(address=server.address, root_certificate=None), csr)
    assert {asked["grpc-accept-encoding"] for asked in server.asked} == {"identity"}
