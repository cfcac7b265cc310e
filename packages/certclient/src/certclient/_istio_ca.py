"""Certificates from the Istio CA API: `IstioCertificateService.CreateCertificate`.

Every try dials anew and reads root, client certificate and token from their files, so whatever
was renewed on disk is used by the next try. Renewals are hours apart: a connection kept between
them would cost more than the handshake it saves.
"""

import contextlib
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import grpc
import grpc.aio

from certclient._authority import CertificateAuthority, RetryingAuthority
from certclient._client_certificate import load_client_certificate
from certclient._errors import AuthorityUnavailable, InvalidConfig, SigningRefused
from certclient._system_roots import SYSTEM_ROOT_PATHS, SystemRoots, system_roots_path
from mesh_lifecycle import Backoff, Clock
from mesh_protos import CREATE_CERTIFICATE
from mesh_protos.ca_pb2 import IstioCertificateRequest, IstioCertificateResponse

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
_TRIES = 5
_TRY_BACKOFF = Backoff(initial_s=0.1, maximum_s=2.0, multiplier=2.0, jitter=0.1)
_NO_RECONNECT_MS = 600_000
_MAX_FILE_BYTES = 1 << 20
_MAX_REASON = 300

_HEADER_NAME = re.compile(r"[a-z0-9_.-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class IstioCaConfig:
    """How to reach an Istio certificate authority and what to show it.

    address: "host:port".
    root_certificate: file of the roots that the server is checked against, SYSTEM for the
        machine's, None for plaintext: the token then travels in the clear.
    server_name: the name in the server's certificate; None for the host of `address`.
    token_path: file of a bearer token; if the file is missing the call goes without one.
    client_certificate_path, client_key_path: shown to the server when both are there and valid.
    cluster_id: sent as ClusterID when not empty.
    headers: further call metadata; names are sent in lower case, as HTTP/2 has them.
    cert_signer: asks for a signer by name; empty for the authority's own.
    timeout_s: the longest that one try may take.
    """

    address: str
    root_certificate: Path | SystemRoots | None
    server_name: str | None = None
    token_path: Path | None = None
    client_certificate_path: Path | None = None
    client_key_path: Path | None = None
    cluster_id: str = ""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    cert_signer: str = ""
    timeout_s: float = 10.0

    def __post_init__(self) -> None:
        if self.timeout_s <= 0:
            raise InvalidConfig(f"timeout_s must be above 0, got {self.timeout_s}")
        for name, value in self.headers:
            if not _HEADER_NAME.fullmatch(name.lower()) or name.lower().endswith("-bin"):
                raise InvalidConfig(
                    f"header name {name!r} must be of letters, digits, . _ - and not end in -bin"
                )
            if not _HEADER_VALUE.fullmatch(value):
                raise InvalidConfig(f"the value of header {name!r} must be printable ASCII")


@asynccontextmanager
async def istio_ca(
    config: IstioCaConfig,
    *,
    clock: Clock | None = None,
    on_retry: Callable[[], None] | None = None,
) -> AsyncIterator[CertificateAuthority]:
    """Open a client of the Istio CA API that asks up to five times when told to come back.

    on_retry: called before each try after the first, as a metric likes it.
    """
    yield RetryingAuthority(
        _IstioCa(config), tries=_TRIES, backoff=_TRY_BACKOFF, clock=clock, on_retry=on_retry
    )


class _IstioCa:
    """One try: dial, ask, hang up."""

    def __init__(self, config: IstioCaConfig) -> None:
        self._config = config

    async def sign(self, csr_pem: bytes, *, lifetime: timedelta) -> tuple[bytes, ...]:
        request = IstioCertificateRequest(
            csr=csr_pem.decode("ascii"), validity_duration=int(lifetime.total_seconds())
        )
        request.metadata["CertSigner"] = self._config.cert_signer
        metadata = _call_metadata(self._config)
        async with _dial(self._config) as channel:
            create_certificate = channel.unary_unary(
                CREATE_CERTIFICATE,
                request_serializer=IstioCertificateRequest.SerializeToString,
                response_deserializer=IstioCertificateResponse.FromString,
            )
            try:
                response = await create_certificate(
                    request, metadata=metadata, timeout=self._config.timeout_s
                )
            except grpc.aio.AioRpcError as error:
                raise _translated(error, self._config.address) from error
        chain = tuple(part.encode() for part in response.cert_chain)
        if len(chain) < 2:
            raise SigningRefused(
                f"{self._config.address} answered with a chain of {len(chain)} certificates, "
                "a leaf and a root are needed"
            )
        return chain


def _dial(config: IstioCaConfig) -> grpc.aio.Channel:
    options: list[tuple[str, str | int]] = [
        ("grpc.enable_retries", 0),
        ("grpc.use_local_subchannel_pool", 1),
        # gRPC's core may outlive the channel for a while, and would dial again a second after its
        # connection failed: nobody's try, and outside of every backoff.
        ("grpc.initial_reconnect_backoff_ms", _NO_RECONNECT_MS),
        ("grpc.max_reconnect_backoff_ms", _NO_RECONNECT_MS),
    ]
    if config.root_certificate is None:
        return grpc.aio.insecure_channel(config.address, options=options)
    key, chain = load_client_certificate(config.client_certificate_path, config.client_key_path)
    credentials = grpc.ssl_channel_credentials(
        root_certificates=_root_certificates(config.root_certificate),
        private_key=key,
        certificate_chain=chain,
    )
    if config.server_name is not None:
        options += [
            ("grpc.ssl_target_name_override", config.server_name),
            ("grpc.default_authority", config.server_name),
        ]
    return grpc.aio.secure_channel(config.address, credentials, options=options)


def _root_certificates(source: Path | SystemRoots) -> bytes:
    if isinstance(source, Path):
        path = source
    else:
        found = system_roots_path()
        if found is None:
            looked_at = ", ".join(map(str, SYSTEM_ROOT_PATHS))
            raise AuthorityUnavailable(f"this machine has no system roots at any of {looked_at}")
        path = found
    pem = _read(path, what="root certificate")
    if b"-----BEGIN" not in pem:
        raise AuthorityUnavailable(f"root certificate {path} holds no PEM certificate")
    return pem


def _call_metadata(config: IstioCaConfig) -> list[tuple[str, str]]:
    metadata = [(name.lower(), value) for name, value in config.headers]
    if config.cluster_id:
        metadata.append(("clusterid", config.cluster_id))
    token = _token(config.token_path)
    if token:
        metadata.append(("authorization", f"Bearer {token}"))
    return metadata


def _token(path: Path | None) -> str:
    if path is None:
        return ""
    with contextlib.suppress(FileNotFoundError):
        text = _read(path, what="token").decode("ascii", errors="replace").strip()
        if not _HEADER_VALUE.fullmatch(text):
            raise AuthorityUnavailable(f"token {path} holds more than one line of printable ASCII")
        return text
    return ""


def _read(path: Path, *, what: str) -> bytes:
    """Read a small file; a missing token is its caller's affair, all else is an error to tell."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
    except FileNotFoundError as error:
        if what == "token":
            raise
        raise AuthorityUnavailable(f"{what} {path} does not exist") from error
    except OSError as error:
        raise AuthorityUnavailable(f"{what} {path} cannot be read: {error.strerror}") from error
    if len(content) > _MAX_FILE_BYTES:
        raise AuthorityUnavailable(f"{what} {path} is over {_MAX_FILE_BYTES} bytes")
    return content


def _translated(error: grpc.aio.AioRpcError, address: str) -> AuthorityUnavailable | SigningRefused:
    code = error.code()
    details = (error.details() or "no details")[:_MAX_REASON]
    kind = AuthorityUnavailable if code in _RETRYABLE else SigningRefused
    return kind(f"{address} answered {code.name}: {details}")
