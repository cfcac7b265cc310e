"""Istio's certificate service: authenticates the caller, signs for its identities, logs it.

A caller that is not authenticated gets the reason as far as it follows from the credentials that
it showed; an authenticated caller gets what is wrong with its request.
"""

import logging
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, assert_never

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from prometheus_client import CollectorRegistry

from mesh_ca._errors import (
    CsrError,
    IdentityError,
    LifetimeError,
    NotAuthenticated,
    NotReadyError,
    SignersUnavailable,
)
from mesh_ca._metrics import CertificateMetrics
from mesh_ca.authority._authority import DEFAULT_LIFETIME, Authority, Issued
from mesh_ca.callers._authenticator import Authenticator, Caller, Credentials
from mesh_ca.callers._self_renewal import SELF_RENEWAL_LIMIT, renewed_lifetime
from mesh_ca.service._audit import write_audit_record
from mesh_ca.service._refusal_log import RefusalLog
from mesh_protos import CREATE_CERTIFICATE
from mesh_protos.ca_pb2 import IstioCertificateRequest, IstioCertificateResponse

log = logging.getLogger("mesh_ca")

MAX_LIFETIME = timedelta(days=90)
# A signing request of the largest keys is some 3 KiB in PEM.
_MOST_REQUEST_BYTES = 64 * 1024
_IMPERSONATION = "ImpersonatedIdentity"

SigningError = CsrError | LifetimeError | IdentityError | NotReadyError | SignersUnavailable
SIGNING_ERRORS = (CsrError, LifetimeError, IdentityError, NotReadyError, SignersUnavailable)
ServicerContext = grpc.aio.ServicerContext[bytes, IstioCertificateResponse]


class Sign(Protocol):
    """Signs certificates elsewhere than in the event loop: `SignerProcesses.sign`."""

    async def __call__(
        self,
        csr_pem: bytes,
        *,
        identities: Sequence[str],
        lifetime: timedelta | None = None,
        proven_at: datetime | None = None,
        is_key_revoked: Callable[[str], bool] = ...,
    ) -> Issued:
        """As `Authority.sign`; raises SignersUnavailable too."""
        ...


@dataclass(frozen=True, slots=True)
class _Refusal:
    code: grpc.StatusCode
    message: str


def certificate_service(
    authority: Authority,
    authenticator: Authenticator,
    *,
    credentials_of: Callable[[ServicerContext], Credentials],
    default_lifetime: timedelta = DEFAULT_LIFETIME,
    max_lifetime: timedelta = MAX_LIFETIME,
    self_renewal_limit: timedelta = SELF_RENEWAL_LIMIT,
    is_key_revoked: Callable[[str], bool] = lambda _sha256: False,
    sign: Sign | None = None,
    registry: CollectorRegistry | None = None,
) -> "grpc.GenericRpcHandler[bytes, IstioCertificateResponse]":
    """Return the handler of `CreateCertificate`, for any `grpc.aio` server.

    A request without a lifetime gets `default_lifetime`, one for more than `max_lifetime` is
    refused. A caller whose only proof is a certificate of this authority gets no longer one than
    that or the default, and only until `self_renewal_limit` after it last gave another proof.
    `is_key_revoked` is asked by the SHA-256 of a key (DER SubjectPublicKeyInfo, hexadecimal).
    `sign` signs for `authority` in other processes; None to sign in this one.
    Every certificate issued leaves a record in the log `mesh_ca.audit`.
    """
    if not timedelta(0) < default_lifetime <= max_lifetime:
        raise LifetimeError(
            f"default certificate lifetime {default_lifetime} must be above zero "
            f"and not above the maximum, {max_lifetime}"
        )
    service = _CertificateService(
        authority=authority,
        authenticator=authenticator,
        credentials_of=credentials_of,
        default_lifetime=default_lifetime,
        max_lifetime=max_lifetime,
        self_renewal_limit=self_renewal_limit,
        is_key_revoked=is_key_revoked,
        sign=sign,
        metrics=CertificateMetrics(registry or CollectorRegistry(), authority),
        refusals=RefusalLog(),
    )
    _, service_name, method_name = CREATE_CERTIFICATE.split("/")
    handler = grpc.unary_unary_rpc_method_handler(
        service.create_certificate,
        # Requests are parsed after their size was checked and their caller authenticated.
        request_deserializer=None,
        response_serializer=IstioCertificateResponse.SerializeToString,
    )
    return grpc.method_handlers_generic_handler(service_name, {method_name: handler})


def grpc_credentials(context: ServicerContext) -> Credentials:
    """Return the credentials of a call on a server whose TLS ends in grpcio."""
    auth = context.auth_context()
    metadata = {
        key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)
    }
    return Credentials(
        metadata=metadata,
        encrypted=auth.get("transport_security_type") == [b"ssl"],
        certificate_chain=tuple(_der(pem) for pem in auth.get("x509_pem_cert", ())),
        address=context.peer(),
    )


def lifetime_of(seconds: int, *, default: timedelta, maximum: timedelta) -> timedelta:
    """Return the lifetime for a request of `seconds`; raises LifetimeError if it is too long."""
    if seconds <= 0:
        return default
    # As numbers: an int64 of seconds is more than a timedelta can hold.
    if seconds > maximum.total_seconds():
        raise LifetimeError(
            f"lifetime of {seconds} s, at most {int(maximum.total_seconds())} s are given"
        )
    return timedelta(seconds=seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class _CertificateService:
    authority: Authority
    authenticator: Authenticator
    credentials_of: Callable[[ServicerContext], Credentials]
    default_lifetime: timedelta
    max_lifetime: timedelta
    self_renewal_limit: timedelta
    is_key_revoked: Callable[[str], bool]
    sign: Sign | None
    metrics: CertificateMetrics
    refusals: RefusalLog

    async def create_certificate(
        self, data: bytes, context: ServicerContext
    ) -> IstioCertificateResponse:
        self.metrics.requests.inc()
        credentials = self.credentials_of(context)
        try:
            answer = await self._answer(data, credentials)
        except Exception:
            log.exception("certificate request failed", extra={"peer": credentials.address})
            answer = _Refusal(grpc.StatusCode.INTERNAL, "internal error")
        if isinstance(answer, _Refusal):
            await context.abort(answer.code, answer.message)
        return answer

    async def _answer(
        self, data: bytes, credentials: Credentials
    ) -> IstioCertificateResponse | _Refusal:
        peer = credentials.address
        if len(data) > _MOST_REQUEST_BYTES:
            return _Refusal(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"request of {len(data)} bytes, at most {_MOST_REQUEST_BYTES} are taken",
            )
        try:
            caller = await self.authenticator.authenticate(credentials)
            return await self._signed(IstioCertificateRequest.FromString(data), caller, peer)
        except DecodeError:
            return _Refusal(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"{len(data)} bytes that are no certificate request",
            )
        except NotAuthenticated as error:
            self.metrics.authentication_failures.inc()
            self.refusals.on_unauthenticated(peer, str(error))
            return _Refusal(grpc.StatusCode.UNAUTHENTICATED, error.status_message)

    async def _signed(
        self, request: IstioCertificateRequest, caller: Caller, peer: str
    ) -> IstioCertificateResponse | _Refusal:
        if _IMPERSONATION in request.metadata.fields:
            # Signing for the caller itself instead would hand out the wrong identity.
            raise NotAuthenticated(
                f"{caller.identities[0]} asks for another's certificate",
                public_reason="no certificates for other identities here (ImpersonatedIdentity)",
            )
        try:
            issued = await self._issue(request, caller, peer)
        except SIGNING_ERRORS as error:
            return self._refusal(error, caller, peer)
        return IstioCertificateResponse(cert_chain=[pem.decode() for pem in issued.chain_pem])

    async def _issue(self, request: IstioCertificateRequest, caller: Caller, peer: str) -> Issued:
        lifetime = lifetime_of(
            request.validity_duration, default=self.default_lifetime, maximum=self.max_lifetime
        )
        if caller.shown is not None:
            lifetime = renewed_lifetime(
                caller.shown,
                lifetime,
                now=self.authority.now(),
                default=self.default_lifetime,
                limit=self.self_renewal_limit,
            )
        proven_at = None if caller.shown is None else caller.shown.proven_at
        csr = request.csr.encode()
        if self.sign is None:
            issued = self.authority.sign(
                csr,
                identities=caller.identities,
                lifetime=lifetime,
                proven_at=proven_at,
                is_key_revoked=self.is_key_revoked,
            )
        else:
            issued = await self.sign(
                csr,
                identities=caller.identities,
                lifetime=lifetime,
                proven_at=proven_at,
                is_key_revoked=self.is_key_revoked,
            )
        # Without an await after it was signed: a caller that hangs up now still leaves its record.
        self.metrics.issued.inc()
        write_audit_record(issued, caller, peer)
        self.refusals.on_issue(caller, peer)
        return issued

    def _refusal(self, error: SigningError, caller: Caller, peer: str) -> _Refusal:
        kind, refusal = _classified(error)
        self.metrics.signing_errors.labels(error=kind).inc()
        if kind == "CSR_ERROR":
            self.metrics.unreadable_requests.inc()
        elif kind == "IDENTITY_ERROR":
            self.metrics.unusable_identities.inc()
        self.refusals.on_refusal(caller, peer, kind=kind, reason=str(error))
        return refusal


def _classified(error: SigningError) -> tuple[str, _Refusal]:
    """Return the error's name in the metrics, which is Istio's, and the status of the answer."""
    match error:
        case CsrError():
            return "CSR_ERROR", _Refusal(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        case LifetimeError():
            return "TTL_ERROR", _Refusal(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        case IdentityError():
            message = "identity not certified here"
            return "IDENTITY_ERROR", _Refusal(grpc.StatusCode.PERMISSION_DENIED, message)
        case SignersUnavailable():
            message = "certificate authority busy, ask again"
            return "CA_NOT_READY", _Refusal(grpc.StatusCode.UNAVAILABLE, message)
        case NotReadyError():
            message = "certificate authority not ready"
            return "CA_NOT_READY", _Refusal(grpc.StatusCode.INTERNAL, message)
        case _:
            assert_never(error)


def _der(pem: bytes) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pem.decode("ascii"))
