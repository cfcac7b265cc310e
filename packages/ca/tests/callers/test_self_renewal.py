"""A certificate that is renewed by showing itself: no longer lived, and not for ever."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta

import grpc
import grpc.aio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from mesh_ca import (
    Caller,
    ClientCertificateAuthenticator,
    Credentials,
    KeyType,
    NotAuthenticated,
    certificate_service,
)
from mesh_ca.authority._keys import new_key
from mesh_ca.authority._serial_number import proven_at
from mesh_ca.callers._self_renewal import ShownCertificate, renewed_lifetime, shown_certificate
from mesh_ca.testing import signing_request, throwaway_authority
from mesh_protos import CREATE_CERTIFICATE
from mesh_protos.ca_pb2 import IstioCertificateRequest, IstioCertificateResponse

CART = "spiffe://cluster.local/ns/shop/sa/cart"
DAY = timedelta(days=1)
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
Serve = Callable[..., AbstractAsyncContextManager[int]]


class FakeClock:
    """The clock of conftest, as the type checker sees it."""

    now: float

    def __call__(self) -> float:
        return self.now


def signed(*, proven_at: datetime | None = None) -> x509.Certificate:
    csr = signing_request()[1]
    issued = throwaway_authority().sign(csr, identities=[CART], proven_at=proven_at)
    return x509.load_pem_x509_certificate(issued.chain_pem[0])


spans = st.timedeltas(timedelta(seconds=1), timedelta(days=400))


@given(wanted=spans, own=spans, default=spans, limit=spans, age=spans)
def test_no_chain_of_renewals_outlasts_its_limit_or_grows(
    wanted: timedelta, own: timedelta, default: timedelta, limit: timedelta, age: timedelta
) -> None:
    shown = ShownCertificate(proven_at=BEGAN, lifetime=own)
    now = BEGAN + age
    if age >= limit:
        with pytest.raises(NotAuthenticated, match="show a token"):
            renewed_lifetime(shown, wanted, now=now, default=default, limit=limit)
        return
    given_lifetime = renewed_lifetime(shown, wanted, now=now, default=default, limit=limit)
    assert timedelta(0) < given_lifetime <= min(wanted, max(own, default))
    assert now + given_lifetime <= BEGAN + limit


@given(st.integers(0, 2**32 - 1).map(lambda second: datetime.fromtimestamp(second, UTC)))
def test_the_moment_is_read_as_it_was_written(moment: datetime) -> None:
    moment = moment.replace(microsecond=0)
    first, second = (signed(proven_at=moment) for _ in range(2))
    assert proven_at(first) == proven_at(second) == moment
    assert first.serial_number != second.serial_number
    assert first.serial_number.bit_length() < 160


def test_a_certificate_of_another_authority_is_proven_when_it_begins() -> None:
    leaf = signed()
    elsewhere = (
        x509.CertificateBuilder()
        .subject_name(leaf.subject)
        .issuer_name(leaf.subject)
        .public_key(leaf.public_key())
        .serial_number(2**158 - 1)
        .not_valid_before(BEGAN)
        .not_valid_after(BEGAN + DAY)
        .sign(new_key(KeyType.P256), SHA256())
    )
    shown = shown_certificate(elsewhere, skew=timedelta(0))
    assert shown == ShownCertificate(proven_at=BEGAN, lifetime=DAY)


class ByTheLastCertificate:
    """Callers that show the certificate they were given last."""

    def __init__(self, clock: FakeClock) -> None:
        self._inner = ClientCertificateAuthenticator(clock=clock)
        self.leaf = b""

    async def authenticate(self, _credentials: Credentials) -> Caller:
        shown = Credentials(metadata={}, encrypted=True, certificate_chain=(self.leaf,))
        return await self._inner.authenticate(shown)


def leaf_of(pem: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem.encode())


async def test_renewals_by_certificate_end_at_the_limit_and_never_last_longer(
    serve: Serve, clock: FakeClock
) -> None:
    authority = throwaway_authority(root_lifetime=timedelta(days=3650), clock=clock)
    callers = ByTheLastCertificate(clock)
    service = certificate_service(
        authority,
        callers,
        credentials_of=lambda _: Credentials(metadata={}, encrypted=True),
        self_renewal_limit=10 * DAY,
    )
    first = authority.sign(signing_request()[1], identities=[CART], lifetime=DAY)
    proven = datetime.fromtimestamp(int(clock.now), UTC)
    callers.leaf = leaf_of(first.chain_pem[0].decode()).public_bytes(Encoding.DER)
    request = IstioCertificateRequest(
        csr=signing_request()[1].decode(), validity_duration=int((90 * DAY).total_seconds())
    )
    async with (
        serve(authority, service, plaintext=True) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        create = channel.unary_unary(
            CREATE_CERTIFICATE,
            request_serializer=IstioCertificateRequest.SerializeToString,
            response_deserializer=IstioCertificateResponse.FromString,
        )
        for renewals in range(1, 20):
            clock.now += DAY.total_seconds() / 2
            answer = await create(request)
            leaf = leaf_of(answer.cert_chain[0])
            assert leaf.not_valid_after_utc <= proven + 10 * DAY, renewals
            assert leaf.not_valid_after_utc.timestamp() - clock.now <= DAY.total_seconds()
            assert proven_at(leaf) == proven
            callers.leaf = leaf.public_bytes(Encoding.DER)
        clock.now = (proven + 10 * DAY).timestamp()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await create(request)
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
