"""Certificates from the Istio CA API: `IstioCertificateService.CreateCertificate`.

Every try opens a connection and reads root, client certificate and token from their files, so what
was renewed on disk is used by the next try. Renewals are hours apart: keeping a connection between
them would cost more than the handshake that it saves.
"""

import logging
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import grpc
import grpc.aio

from certclient._errors import AuthorityUnavailable, SigningRefused
from certclient.authorities._authority import CertificateAuthority, RetryingAuthority
from certclient.authorities._istio_ca_config import IstioCaConfig
from certclient.x509._acceptance import MAX_ANSWER_BYTES
from mesh_filewatch import fetch_bytes
from mesh_identity import (
    SYSTEM,
    ClientCertificate,
    ExpectedName,
    NoClientCertificate,
    NoSystemRoots,
    SystemRoots,
    TokenFileError,
    TrustedRoots,
    fetch_client_certificate,
    fetch_system_roots,
    fetch_token,
    token_facts,
    token_fault,
    why_unreachable,
)
from mesh_lifecycle import Backoff, Clock, RepeatLog, SystemClock
from mesh_protos import CREATE_CERTIFICATE
from mesh_protowire import WireError, bytes_field, encode_struct, values_of, varint_field

log = logging.getLogger("certclient.authorities")

FurtherRoots = Callable[[bytes], bytes]

_RETRYABLE = frozenset(
    {
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
    }
)
_ABOUT_CREDENTIALS = frozenset({grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED})
_PROBE_TIMEOUT_S = 2.0
_TRIES = 5
_TRY_BACKOFF = Backoff(initial_s=0.1, maximum_s=2.0, multiplier=2.0, jitter=0.1)
_NO_RECONNECT_MS = 600_000
_MAX_FILE_BYTES = 1 << 20
_MAX_REASON = 300
_MAX_RESPONSE_BYTES = MAX_ANSWER_BYTES + (64 << 10)
"""Longer answers are not read. The 64 KiB are for protobuf's encoding around the chain."""

_CSR, _VALIDITY_DURATION, _METADATA = 1, 3, 4  # of IstioCertificateRequest
_CERT_CHAIN = 1  # of IstioCertificateResponse


@asynccontextmanager
async def istio_ca(
    config: IstioCaConfig,
    *,
    clock: Clock | None = None,
    on_retry: Callable[[], None] | None = None,
    on_failed_try: Callable[[str], None] | None = None,
    further_roots: FurtherRoots | None = None,
) -> AsyncIterator[CertificateAuthority]:
    """Open a client of the Istio CA API that tries up to five times while the authority is
    unavailable.

    on_retry: called before each try after the first, for a metric.
    on_failed_try: called with the reason of each failed try that is followed by another.
    further_roots: called for each connection with the root file's content; returns further roots,
        PEM, to verify the server by. Not called for plaintext and the machine's roots.
    """
    clock = clock or SystemClock()
    one_try = _IstioCa(config, clock=clock, further_roots=further_roots)
    tries = RetryingAuthority(
        one_try,
        tries=_TRIES,
        backoff=_TRY_BACKOFF,
        clock=clock,
        on_retry=on_retry,
        on_failed_try=on_failed_try,
    )
    yield _WithReason(tries, config, further_roots)


class _NotReached(AuthorityUnavailable):
    """There was no connection, or it broke. gRPC's reason is prose for its own developers."""


class _WithReason:
    """Finds out why the authority could not be reached, once all tries have failed."""

    def __init__(
        self,
        authority: CertificateAuthority,
        config: IstioCaConfig,
        further_roots: FurtherRoots | None,
    ) -> None:
        self._authority = authority
        self._config = config
        self._further_roots = further_roots

    async def sign(self, csr_pem: bytes, *, lifetime: timedelta) -> tuple[bytes, ...]:
        try:
            return await self._authority.sign(csr_pem, lifetime=lifetime)
        except _NotReached as error:
            reason = await self._reason()
            if reason is None:
                raise
            raise AuthorityUnavailable(f"cannot reach {self._config.address}: {reason}") from error

    async def _reason(self) -> str | None:
        config = self._config
        host, _, port = config.address.rpartition(":")
        if not port.isdecimal():
            return None
        host = host.strip("[]")
        try:
            return await why_unreachable(
                host,
                int(port),
                trusted=await _trusted(config.root_certificate, self._further_roots),
                expected=ExpectedName(config.server_name or host, config.server_name_setting),
                timeout_s=_PROBE_TIMEOUT_S,
            )
        except ValueError:
            return f"root certificate {config.root_certificate} holds no PEM certificate"


class _IstioCa:
    """Makes one try: connects, sends the request and disconnects."""

    def __init__(
        self, config: IstioCaConfig, *, clock: Clock, further_roots: FurtherRoots | None
    ) -> None:
        self._config = config
        self._further_roots = further_roots
        self._clock = clock
        self._token_faults = RepeatLog(
            log, "the token for the certificate authority is not valid", quiet_s=math.inf
        )

    async def sign(self, csr_pem: bytes, *, lifetime: timedelta) -> tuple[bytes, ...]:
        request = _request(csr_pem, lifetime, cert_signer=self._config.cert_signer)
        token = await _token(self._config.token_path)
        self._log_token_fault(token)
        metadata = _call_metadata(self._config, token)
        client = await _client_certificate(self._config)
        async with await _new_channel(self._config, self._further_roots, client) as channel:
            create_certificate = channel.unary_unary(CREATE_CERTIFICATE, None, None)
            try:
                response = await create_certificate(
                    request, metadata=metadata, timeout=self._config.timeout_s
                )
            except grpc.aio.AioRpcError as error:
                raise self._translated(error, token, client) from error
        try:
            chain = values_of(response, _CERT_CHAIN)
        except WireError as error:
            raise SigningRefused(
                f"{self._config.address} answered with no certificate response: {error}"
            ) from error
        if len(chain) < 2:
            raise SigningRefused(
                f"{self._config.address} answered with a chain of {len(chain)} certificates, "
                "a leaf and a root are needed"
            )
        return chain

    def _log_token_fault(self, token: str | None) -> None:
        """Log a token that the authority will probably refuse.

        The call goes out all the same: the authority may accept our client certificate, and its
        clock decides, not ours.
        """
        if self._config.token_path is None:
            return
        fault = _token_fault(token, now=self._clock.now())
        path = str(self._config.token_path)
        if fault is None:
            self._token_faults.ended(path)
        else:
            self._token_faults.happened(path, reason=f"it {fault}", facts={"token": path})

    def _translated(
        self,
        error: grpc.aio.AioRpcError,
        token: str | None,
        client: ClientCertificate | NoClientCertificate | None,
    ) -> AuthorityUnavailable | SigningRefused:
        code = error.code()
        details = (error.details() or "no details")[:_MAX_REASON]
        reason = f"{self._config.address} answered {code.name}: {details}"
        if code in _ABOUT_CREDENTIALS:
            reason += f" ({self._credentials(token, client)})"
        if code is grpc.StatusCode.UNAVAILABLE:
            return _NotReached(reason)
        return (AuthorityUnavailable if code in _RETRYABLE else SigningRefused)(reason)

    def _credentials(
        self, token: str | None, client: ClientCertificate | NoClientCertificate | None
    ) -> str:
        """Describe the credentials that were sent, to compare with what the authority accepts."""
        path = self._config.token_path
        if path is None:
            said = "no token was sent"
        elif token is None:
            said = f"token {path} does not exist, so none was sent"
        else:
            said = f"token {path} {token_facts(token, now=self._clock.now())}"
        certificate = self._config.client_certificate_path
        match client:
            case None:
                return said
            case NoClientCertificate():
                return f"{said}; no client certificate was shown, as {certificate} {client}"
            case _:
                return f"{said}; client certificate {certificate}"


def _request(csr_pem: bytes, lifetime: timedelta, *, cert_signer: str) -> bytes:
    """Return a serialised `IstioCertificateRequest`; security/v1alpha1/ca.proto has the numbers."""
    return (
        bytes_field(_CSR, csr_pem)
        + varint_field(_VALIDITY_DURATION, int(lifetime.total_seconds()))
        + bytes_field(_METADATA, encode_struct({"CertSigner": cert_signer}))
    )


async def _new_channel(
    config: IstioCaConfig,
    further_roots: FurtherRoots | None,
    client: ClientCertificate | NoClientCertificate | None,
) -> grpc.aio.Channel:
    options: list[tuple[str, str | int]] = [
        ("grpc.enable_retries", 0),
        ("grpc.use_local_subchannel_pool", 1),
        # gRPC's core may outlive the channel for a while, and would connect again a second after a
        # failure, outside of every backoff.
        ("grpc.initial_reconnect_backoff_ms", _NO_RECONNECT_MS),
        ("grpc.max_reconnect_backoff_ms", _NO_RECONNECT_MS),
        ("grpc.max_receive_message_length", _MAX_RESPONSE_BYTES),
        # None but identity: a kilobyte may be a megabyte unpacked, and some versions of gRPC look
        # at the size only then.
        ("grpc.compression_enabled_algorithms_bitset", 1),
    ]
    trusted = await _trusted(config.root_certificate, further_roots)
    if trusted is None:
        return grpc.aio.insecure_channel(config.address, options=options)
    shown = client if isinstance(client, ClientCertificate) else None
    credentials = grpc.ssl_channel_credentials(
        root_certificates=trusted.roots_pem,
        private_key=None if shown is None else shown.key_pem,
        certificate_chain=None if shown is None else shown.chain_pem,
    )
    if config.server_name is not None:
        options += [
            ("grpc.ssl_target_name_override", config.server_name),
            ("grpc.default_authority", config.server_name),
        ]
    return grpc.aio.secure_channel(config.address, credentials, options=options)


async def _client_certificate(
    config: IstioCaConfig,
) -> ClientCertificate | NoClientCertificate | None:
    """Return the certificate that is shown, or why none is: the token says who the caller is."""
    chain_path, key_path = config.client_certificate_path, config.client_key_path
    if config.root_certificate is None or chain_path is None or key_path is None:
        return None
    try:
        return await fetch_client_certificate(chain_path, key_path)
    except NoClientCertificate as error:
        return error


async def _trusted(
    source: Path | SystemRoots | None, further_roots: FurtherRoots | None
) -> TrustedRoots | None:
    """Return the roots that the server is verified by; None for plaintext."""
    if source is None:
        return None
    if source is SYSTEM:
        try:
            return await fetch_system_roots()
        except NoSystemRoots as error:
            raise AuthorityUnavailable(str(error)) from error
    pem = await _roots_in(source)
    further = further_roots(pem) if further_roots is not None else b""
    learned = " or one learned from the control plane" if further else ""
    return TrustedRoots(
        roots_pem=b"\n".join((pem, further)),
        described=f"a root in {source}{learned}",
        remedy=f"put the root that the authority's server has now into {source}",
    )


async def _roots_in(path: Path) -> bytes:
    try:
        pem = await fetch_bytes(path, max_bytes=_MAX_FILE_BYTES)
    except FileNotFoundError as error:
        raise AuthorityUnavailable(f"root certificate {path} does not exist") from error
    except OSError as error:
        raise AuthorityUnavailable(
            f"root certificate {path} cannot be read: {error.strerror}"
        ) from error
    if b"-----BEGIN" not in pem:
        raise AuthorityUnavailable(f"root certificate {path} holds no PEM certificate")
    return pem


def _call_metadata(config: IstioCaConfig, token: str | None) -> list[tuple[str, str]]:
    metadata = [(name.lower(), value) for name, value in config.headers]
    if config.cluster_id:
        metadata.append(("clusterid", config.cluster_id))
    if token:
        metadata.append(("authorization", f"Bearer {token}"))
    return metadata


async def _token(path: Path | None) -> str | None:
    """Return the token; None without its file, empty if the file is."""
    if path is None:
        return None
    try:
        return await fetch_token(path)
    except TokenFileError as error:
        raise AuthorityUnavailable(str(error)) from error


def _token_fault(token: str | None, *, now: float) -> str | None:
    return "does not exist" if token is None else token_fault(token, now=now)
