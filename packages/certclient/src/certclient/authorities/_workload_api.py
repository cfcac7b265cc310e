"""Certificates from the SPIFFE Workload API, as SPIRE serves it.

The API is one stream, and each message is the whole state. Bundles of federated trust domains are
not
used: one bundle for all of them would let each sign for the others' names.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

import grpc
import grpc.aio
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, load_der_private_key

from certclient._errors import (
    CertClientError,
    CertificateRejected,
    InvalidConfig,
    InvalidPem,
    SourceUnavailable,
)
from certclient.authorities._workload_api_messages import (
    FETCH_X509_SVID,
    SECURITY_HEADER,
    request_class,
    response_class,
)
from certclient.feed._certificates import Certificates
from certclient.feed._source_publisher import SourcePublisher
from certclient.x509._acceptance import accept
from certclient.x509._certificate import Certificate
from certclient.x509._keys import PrivateKey
from mesh_identity import InvalidSpiffeId, SpiffeId
from mesh_lifecycle import Backoff, Clock, SystemClock, check_fields, in_background

if TYPE_CHECKING:
    from certclient.authorities._workload_api_messages import X509Svid, X509SvidResponse

T = TypeVar("T")

_MAX_MESSAGE_BYTES = 4 << 20
_MAX_CERTIFICATES = 100
_MAX_REASON = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadApiConfig:
    """Where the API is, and which of its identities to use.

    address: "unix:///path/to.sock" or "tcp://127.0.0.1:PORT", as in SPIFFE_ENDPOINT_SOCKET.
    spiffe_id, hint: use the identity of this name, or this hint; without either, the first.
    backoff: the delays between failed attempts to open the stream.
    """

    address: str
    spiffe_id: SpiffeId | None = None
    hint: str | None = None
    backoff: Backoff = field(default_factory=lambda: Backoff(initial_s=0.5, maximum_s=15.0))

    def __post_init__(self) -> None:
        check_fields(self, error=InvalidConfig)
        _target(self.address)


@asynccontextmanager
async def follow_workload_api(
    config: WorkloadApiConfig, *, clock: Clock | None = None
) -> AsyncIterator[Certificates]:
    """Publish the certificates that the API sends, each checked as an authority's answer is.

    Does not wait for the first and does not fail while the API is unavailable: see
    `wait_for_first` and `last_error`. `request_renewal` opens a new stream, which brings the
    newest.
    """
    client = _Client(config, clock or SystemClock())
    async with in_background(client.run(), name="workload API"):
        try:
            yield client.publisher.certificates
        finally:
            client.publisher.close()


class _Client:
    def __init__(self, config: WorkloadApiConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._requested = asyncio.Event()
        self._delays = config.backoff.delays()
        self._identity: str | None = None
        """The SPIFFE id that was taken, which stays when others are offered beside it."""
        self.publisher = SourcePublisher(clock, on_request=self._requested.set)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.publisher.withdraw_when_expired(), name="certificate expiry")
            group.create_task(self._streaming(), name="workload API stream")

    async def _streaming(self) -> None:
        while True:
            self._requested.clear()
            reason = await self._until_requested(self._stream())
            if reason is not None:
                self.publisher.report_failure(reason)
                await self._until_requested(self._clock.sleep(next(self._delays)))

    async def _until_requested(self, work: Coroutine[object, object, T]) -> T | None:
        """Return the result of `work`; None if a renewal is requested before it ends."""
        task = asyncio.create_task(work, name="workload API stream or pause")
        requested = asyncio.create_task(self._requested.wait(), name="workload API request")
        try:
            await asyncio.wait((task, requested), return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            task.cancel()
            requested.cancel()
            await asyncio.gather(task, requested, return_exceptions=True)

    async def _stream(self) -> str:
        """Publish each message until the stream ends; return why it ended."""
        address = self._config.address
        options = [
            ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
            ("grpc.compression_enabled_algorithms_bitset", 1),  # none, as for the Istio CA
        ]
        # A new channel for each stream: a channel has a backoff of its own, of up to two minutes.
        async with grpc.aio.insecure_channel(_target(address), options=options) as channel:
            fetch = channel.unary_stream(
                FETCH_X509_SVID,
                request_serializer=request_class().SerializeToString,
                response_deserializer=response_class().FromString,
            )
            try:
                async for response in fetch(request_class()(), metadata=(SECURITY_HEADER,)):
                    self._publish(response)
            except grpc.aio.AioRpcError as error:
                details = (error.details() or "no details")[:_MAX_REASON]
                return f"workload API at {address} answered {error.code().name}: {details}"
        return f"workload API at {address} ended the stream"

    def _publish(self, response: "X509SvidResponse") -> None:
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        try:
            certificate = certificate_of(response, self._config, now, taken=self._identity)
        except (CertClientError, InvalidSpiffeId) as error:
            self.publisher.report_failure(str(error))
        else:
            self._delays = self._config.backoff.delays()
            self._identity = str(certificate.spiffe_id)
            self.publisher.publish(certificate)


def certificate_of(
    response: "X509SvidResponse",
    config: WorkloadApiConfig,
    now: datetime,
    *,
    taken: str | None = None,
) -> Certificate:
    """Make a certificate of an X509SVIDResponse; raises CertClientError or InvalidSpiffeId.

    taken: the SPIFFE id that an earlier response was taken for.
    """
    svid = _chosen(list(response.svids), config, taken=taken)
    try:
        key = load_der_private_key(svid.x509_svid_key, password=None)
        chain = [_pem(der) for der in _split(svid.x509_svid)]
        roots = b"".join(_pem(der) for der in _split(svid.bundle))
        crls = [x509.load_der_x509_crl(der) for der in response.crl]
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        if isinstance(error, CertClientError):
            raise
        raise InvalidPem(
            "the workload API sent a key or certificate that cannot be read"
        ) from error
    certificate = accept(
        (*chain, roots),
        key=_supported(key),
        spiffe_id=SpiffeId.parse(svid.spiffe_id),
        now=now,
        # The workload's registration may give it host names, which we don't know.
        further_names=True,
        revocation_lists=crls,
    )
    return replace(certificate, crl_pem=b"".join(each.public_bytes(Encoding.PEM) for each in crls))


def _chosen(
    svids: "Sequence[X509Svid]", config: WorkloadApiConfig, *, taken: str | None
) -> "X509Svid":
    """Return the first that is wanted; before it the one that was taken, wherever it stands now.

    The order says nothing for a workload that has begun as one of them: a registration that is
    added may come first.
    """
    for svid in sorted(svids, key=lambda each: each.spiffe_id != taken):
        if config.spiffe_id is not None and svid.spiffe_id != str(config.spiffe_id):
            continue
        if config.hint is not None and svid.hint != config.hint:
            continue
        return svid
    offered = ", ".join(svid.spiffe_id[:300] for svid in svids[:5]) or "none"
    wanted = config.spiffe_id or (f"hint {config.hint!r}" if config.hint else "any")
    raise SourceUnavailable(f"the workload API offers {offered}, and {wanted} is wanted")


def _supported(key: object) -> PrivateKey:
    if isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        return key
    raise CertificateRejected("the workload API sent a key that is neither RSA nor ECDSA")


def _pem(der: bytes) -> bytes:
    return x509.load_der_x509_certificate(der).public_bytes(Encoding.PEM)


def _split(ders: bytes) -> list[bytes]:
    """Split DER certificates that follow each other without a separator."""
    found: list[bytes] = []
    while ders:
        length = _length(ders)
        if not 0 < length <= len(ders) or len(found) == _MAX_CERTIFICATES:
            raise InvalidPem(
                "the workload API sent a chain or bundle that is not a sequence of certificates"
            )
        found.append(ders[:length])
        ders = ders[length:]
    if not found:
        raise InvalidPem("the workload API sent an empty chain or bundle")
    return found


def _length(der: bytes) -> int:
    """Return the length of the first DER element, its header included; 0 if there is none."""
    if len(der) < 2 or der[0] != 0x30:
        return 0
    short = der[1]
    if short < 0x80:
        return 2 + short
    size = short & 0x7F
    if not 1 <= size <= 4 or len(der) < 2 + size:
        return 0
    return 2 + size + int.from_bytes(der[2 : 2 + size], "big")


def _target(address: str) -> str:
    scheme, colon, rest = address.partition(":")
    if colon and scheme == "unix" and rest.removeprefix("//").startswith("/"):
        return f"unix:{rest.removeprefix('//')}"
    if scheme == "tcp" and rest.startswith("//") and rest.rpartition(":")[2].isdigit():
        return f"ipv4:{rest[2:]}" if "[" not in rest else f"ipv6:{rest[2:]}"
    raise InvalidConfig(
        f"workload API address {address[:300]!r} must be unix:///PATH or tcp://IP:PORT"
    )
