import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import grpc.aio
import pytest
from cryptography import x509
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from mesh_ca import (
    Authority,
    Caller,
    ClientCertificateAuthenticator,
    Credentials,
    FirstOf,
    JwksSource,
    JwtAuthenticator,
    LifetimeError,
    TokenIssuer,
    certificate_service,
    grpc_credentials,
)
from mesh_ca.service._certificate_service import ServicerContext, lifetime_of
from mesh_ca.testing import FixedAuthenticator, signing_request, throwaway_authority
from mesh_protos import CREATE_CERTIFICATE
from mesh_protos.ca_pb2 import IstioCertificateRequest, IstioCertificateResponse

CART = "spiffe://cluster.local/ns/shop/sa/cart"
ISSUER = "https://issuer.example"
Serve = Callable[..., AbstractAsyncContextManager[int]]


async def ask(
    channel: grpc.aio.Channel,
    request: IstioCertificateRequest,
    metadata: Mapping[str, str] | None = None,
) -> list[str]:
    create = channel.unary_unary(
        CREATE_CERTIFICATE,
        request_serializer=IstioCertificateRequest.SerializeToString,
        response_deserializer=IstioCertificateResponse.FromString,
    )
    response = await create(request, metadata=tuple((metadata or {}).items()))
    return list(response.cert_chain)


async def refused(
    channel: grpc.aio.Channel,
    request: IstioCertificateRequest,
    metadata: Mapping[str, str] | None = None,
) -> tuple[grpc.StatusCode, str | None]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await ask(channel, request, metadata)
    return caught.value.code(), caught.value.details()


def trusting(
    authority: Authority, port: int, *, key: bytes | None = None, chain: bytes | None = None
) -> grpc.aio.Channel:
    credentials = grpc.ssl_channel_credentials(authority.root_pem, key, chain)
    return grpc.aio.secure_channel(f"localhost:{port}", credentials)


def request(seconds: int = 3600, csr: bytes | None = None) -> IstioCertificateRequest:
    pem = signing_request()[1] if csr is None else csr
    return IstioCertificateRequest(csr=pem.decode(), validity_duration=seconds)


def spiffe_ids(pem: str) -> list[str]:
    leaf = x509.load_pem_x509_certificate(pem.encode())
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return names.get_values_for_type(x509.UniformResourceIdentifier)


@pytest.fixture
def tokens(tmp_path: Path) -> TokenIssuer:
    issuer = TokenIssuer(tmp_path / "tokens", ISSUER)
    issuer.write_jwks(tmp_path / "jwks.json")
    return issuer


@pytest.fixture
def authenticator(tmp_path: Path) -> FirstOf:
    tokens = JwtAuthenticator(
        ISSUER,
        ["istio-ca"],
        jwks=JwksSource(tmp_path / "jwks.json"),
        trust_domain="cluster.local",
    )
    return FirstOf([ClientCertificateAuthenticator(), tokens])


async def test_a_request_is_refused_by_its_size_before_it_is_parsed(
    serve: Serve, authority: Authority
) -> None:
    seen = []

    class Watching(FixedAuthenticator):
        async def authenticate(self, credentials: Credentials) -> Caller:
            seen.append(credentials)
            return await super().authenticate(credentials)

    handler = certificate_service(authority, Watching(CART), credentials_of=grpc_credentials)
    async with serve(authority, handler) as port, trusting(authority, port) as channel:
        code, details = await refused(channel, request(csr=b"x" * 100_000))
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert details is not None
        assert "at most 65536 are taken" in details
        assert seen == []
        create = channel.unary_unary(CREATE_CERTIFICATE, None, None)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await create(b"\xff\xff")
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_token_over_tls_gets_a_certificate_for_its_service_account(
    serve: Serve, authority: Authority, authenticator: FirstOf, tokens: TokenIssuer
) -> None:
    handler = certificate_service(authority, authenticator, credentials_of=grpc_credentials)
    names = x509.SubjectAlternativeName([x509.DNSName("istiod.istio-system.svc")])
    _, csr = signing_request(extensions=[names])
    async with serve(authority, handler) as port, trusting(authority, port) as channel:
        token = tokens.issue("shop", "cart")
        chain = await ask(channel, request(csr=csr), {"authorization": f"Bearer {token}"})
    assert len(chain) == 2
    assert chain[-1].encode() == authority.root_pem
    assert spiffe_ids(chain[0]) == [CART]
    leaf = x509.load_pem_x509_certificate(chain[0].encode())
    leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(chain[-1].encode()))
    assert "istiod" not in str(leaf.extensions)


async def test_client_certificate_of_this_authority_renews_itself(
    serve: Serve, authority: Authority, authenticator: FirstOf
) -> None:
    handler = certificate_service(authority, authenticator, credentials_of=grpc_credentials)
    key, csr = signing_request()
    chain = authority.sign(csr, identities=[CART]).chain_pem[0]
    async with (
        serve(authority, handler, require_client_certificate=True) as port,
        trusting(authority, port, key=key, chain=chain) as channel,
    ):
        assert spiffe_ids((await ask(channel, request()))[0]) == [CART]


async def test_client_certificate_of_another_authority_does_not_get_in(
    serve: Serve, authority: Authority, authenticator: FirstOf
) -> None:
    handler = certificate_service(authority, authenticator, credentials_of=grpc_credentials)
    key, csr = signing_request()
    chain = throwaway_authority().sign(csr, identities=[CART]).chain_pem[0]
    async with (
        serve(authority, handler, require_client_certificate=True) as port,
        trusting(authority, port, key=key, chain=chain) as channel,
    ):
        code, _ = await refused(channel, request())
    assert code is grpc.StatusCode.UNAVAILABLE


async def test_an_unauthenticated_caller_learns_what_is_wrong_with_its_credentials(
    serve: Serve,
    authority: Authority,
    authenticator: FirstOf,
    tokens: TokenIssuer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    handler = certificate_service(authority, authenticator, credentials_of=grpc_credentials)
    token = tokens.issue("shop", "cart", "elsewhere")
    async with serve(authority, handler) as port, trusting(authority, port) as channel:
        answers = [
            await refused(channel, request(), {"authorization": f"Bearer {token}"}),
            await refused(channel, request(), {"authorization": "Bearer garbage"}),
            await refused(channel, request()),
        ]
    assert [code for code, _ in answers] == [grpc.StatusCode.UNAUTHENTICATED] * 3
    assert [details for _, details in answers] == [
        "request authenticate failure: no client certificate; token for another audience",
        "request authenticate failure: no client certificate; token is not a JSON Web Token",
        "request authenticate failure: no client certificate; no bearer token",
    ]
    reasons = [record.__dict__.get("reason") for record in caplog.records]
    assert [reason for reason in reasons if reason] == [
        "no client certificate; token for another audience",
        "no client certificate; token is not a JSON Web Token",
        "no client certificate; no bearer token",
    ]


async def test_an_unauthenticated_caller_learns_nothing_of_keys_files_and_other_names(
    serve: Serve, authority: Authority, tokens: TokenIssuer, tmp_path: Path
) -> None:
    secret = tmp_path / "secret-place.json"
    nowhere = JwtAuthenticator(
        ISSUER, ["istio-ca"], jwks=JwksSource(secret), trust_domain="cluster.local"
    )
    handler = certificate_service(authority, nowhere, credentials_of=grpc_credentials)
    bearer = {"authorization": f"Bearer {tokens.issue('shop', 'cart', 'istio-ca')}"}
    async with serve(authority, handler) as port, trusting(authority, port) as channel:
        code, details = await refused(channel, request(), bearer)
    assert (code, details) == (
        grpc.StatusCode.UNAUTHENTICATED,
        "request authenticate failure: the control plane has no keys to check tokens with",
    )


async def test_plaintext_caller_is_not_authenticated(
    serve: Serve, authority: Authority, authenticator: FirstOf, tokens: TokenIssuer
) -> None:
    handler = certificate_service(authority, authenticator, credentials_of=grpc_credentials)
    async with (
        serve(authority, handler, plaintext=True) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        token = tokens.issue("shop", "cart")
        code, _ = await refused(channel, request(), {"authorization": f"Bearer {token}"})
    assert code is grpc.StatusCode.UNAUTHENTICATED


async def test_requests_at_fault_are_answered_with_what_is_wrong(
    serve: Serve, authority: Authority
) -> None:
    handler = certificate_service(
        authority, FixedAuthenticator(CART), credentials_of=grpc_credentials
    )
    async with serve(authority, handler) as port, trusting(authority, port) as channel:
        answers = [
            await refused(channel, request(csr=b"garbage")),
            await refused(channel, request(csr=b"")),
            await refused(channel, request(seconds=90 * 86400 + 1)),
            await refused(channel, request(seconds=2**63 - 1)),
        ]
    assert answers == [
        (
            grpc.StatusCode.INVALID_ARGUMENT,
            "CSR can't be parsed, one PEM block CERTIFICATE REQUEST is right",
        )
    ] * 2 + [
        (
            grpc.StatusCode.INVALID_ARGUMENT,
            "lifetime of 7776001 s, at most 7776000 s are given",
        ),
        (
            grpc.StatusCode.INVALID_ARGUMENT,
            "lifetime of 9223372036854775807 s, at most 7776000 s are given",
        ),
    ]


async def test_request_for_another_identity_is_not_authenticated(
    serve: Serve, authority: Authority
) -> None:
    handler = certificate_service(
        authority, FixedAuthenticator(CART), credentials_of=grpc_credentials
    )
    metadata = Struct()
    metadata.update({"ImpersonatedIdentity": "spiffe://cluster.local/ns/shop/sa/till"})
    asking = IstioCertificateRequest(csr=signing_request()[1].decode(), metadata=metadata)
    async with serve(authority, handler) as port, trusting(authority, port) as channel:
        code, _ = await refused(channel, asking)
    assert code is grpc.StatusCode.UNAUTHENTICATED


async def test_identity_of_another_trust_domain_is_denied(
    serve: Serve, authority: Authority
) -> None:
    foreign = FixedAuthenticator("spiffe://elsewhere.example/ns/shop/sa/cart")
    handler = certificate_service(authority, foreign, credentials_of=grpc_credentials)
    async with serve(authority, handler) as port, trusting(authority, port) as channel:
        answer = await refused(channel, request())
    assert answer == (grpc.StatusCode.PERMISSION_DENIED, "identity not certified here")


async def test_authority_past_its_expiry_is_an_internal_error(serve: Serve) -> None:
    now = [datetime.now(UTC).timestamp()]
    serving = throwaway_authority()
    expiring = throwaway_authority(root_lifetime=timedelta(hours=1), clock=lambda: now[0])
    handler = certificate_service(
        expiring, FixedAuthenticator(CART), credentials_of=grpc_credentials
    )
    async with serve(serving, handler) as port, trusting(serving, port) as channel:
        await ask(channel, request())
        now[0] += 3600
        answer = await refused(channel, request())
    assert answer == (grpc.StatusCode.INTERNAL, "certificate authority not ready")


class Broken:
    """An authenticator with a fault of its own."""

    async def authenticate(self, credentials: Credentials) -> Caller:
        del credentials
        raise RuntimeError("canary")


async def test_fault_of_our_own_does_not_show(
    serve: Serve, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    handler = certificate_service(
        authority,
        Broken(),
        credentials_of=grpc_credentials,
    )
    async with serve(authority, handler) as port, trusting(authority, port) as channel:
        assert await refused(channel, request()) == (grpc.StatusCode.INTERNAL, "internal error")
    assert "certificate request failed" in caplog.messages
    caplog.clear()  # its traceback holds on to the event loop


async def test_every_certificate_leaves_an_audit_record(
    serve: Serve, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    def behind_an_acceptor(context: ServicerContext) -> Credentials:
        """Returns what is known of the caller, of whom gRPC itself sees another address."""
        return replace(grpc_credentials(context), address="ipv4:10.0.0.1:4711")

    handler = certificate_service(
        authority, FixedAuthenticator(CART), credentials_of=behind_an_acceptor
    )
    async with serve(authority, handler) as port, trusting(authority, port) as channel:
        chains = [await ask(channel, request(seconds)) for seconds in (0, 60)]
    leaves = [x509.load_pem_x509_certificate(chain[0].encode()) for chain in chains]
    records = [record.__dict__ for record in caplog.records if record.name == "mesh_ca.audit"]
    assert [record["serial"] for record in records] == [
        f"{leaf.serial_number:x}" for leaf in leaves
    ]
    assert [record["not_after"] for record in records] == [
        leaf.not_valid_after_utc.isoformat() for leaf in leaves
    ]
    assert all(record["identities"] == (CART,) for record in records)
    assert all(record["authenticated_by"] == "fixed" for record in records)
    assert all(record["peer"] == "ipv4:10.0.0.1:4711" for record in records)


async def test_metrics_count_under_istios_names(serve: Serve, authority: Authority) -> None:
    registry = CollectorRegistry()
    handler = certificate_service(
        authority, FixedAuthenticator(CART), credentials_of=grpc_credentials, registry=registry
    )
    async with serve(authority, handler) as port, trusting(authority, port) as channel:
        await ask(channel, request())
        await refused(channel, request(csr=b"garbage"))
    value = registry.get_sample_value
    assert value("citadel_server_csr_count") == 2
    assert value("citadel_server_success_cert_issuance_count") == 1
    assert value("citadel_server_csr_parsing_err_count") == 1
    assert value("citadel_server_csr_sign_err_count", {"error": "CSR_ERROR"}) == 1
    expiry = authority.root_not_after.timestamp()
    assert value("citadel_server_root_cert_expiry_timestamp") == expiry
    assert value("citadel_server_cert_chain_expiry_timestamp") == expiry


async def test_nothing_secret_is_logged(
    *,
    serve: Serve,
    tmp_path: Path,
    authority: Authority,
    authenticator: FirstOf,
    tokens: TokenIssuer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    handler = certificate_service(authority, authenticator, credentials_of=grpc_credentials)
    token = tokens.issue("shop", "cart")
    async with serve(authority, handler) as port, trusting(authority, port) as channel:
        await ask(channel, request(), {"authorization": f"Bearer {token}"})
        await refused(channel, request(), {"authorization": f"Bearer {token}x"})
    logged = "\n".join(str(record.__dict__) for record in caplog.records)
    key = (tmp_path / "tokens" / "token-key.pem").read_text()
    assert token.rpartition(".")[2] not in logged
    assert token.split(".")[1] not in logged
    assert not [line for line in key.splitlines() if line in logged]


@pytest.mark.parametrize(
    ("default", "maximum"),
    [(timedelta(0), timedelta(1)), (timedelta(2), timedelta(1)), (timedelta(-1), timedelta(1))],
)
def test_lifetimes_that_contradict_each_other(
    default: timedelta, maximum: timedelta, authority: Authority
) -> None:
    with pytest.raises(LifetimeError, match="default certificate lifetime"):
        certificate_service(
            authority,
            FixedAuthenticator(CART),
            credentials_of=grpc_credentials,
            default_lifetime=default,
            max_lifetime=maximum,
        )


@given(st.integers(-(2**63), 2**63 - 1))
def test_lifetime_is_what_was_asked_within_the_maximum(seconds: int) -> None:
    default, maximum = timedelta(hours=24), timedelta(days=90)
    try:
        lifetime = lifetime_of(seconds, default=default, maximum=maximum)
    except LifetimeError:
        assert seconds > maximum.total_seconds()
        return
    assert lifetime == (timedelta(seconds=seconds) if seconds > 0 else default)
    assert timedelta(0) < lifetime <= maximum
