"""The token, certificate and roots for the control plane, read again for each stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from mesh_filewatch import fetch_bytes
from mesh_identity import (
    SYSTEM,
    ClientCertificate,
    NoClientCertificate,
    NoSystemRoots,
    SystemRoots,
    TokenFileError,
    TrustedRoots,
    fetch_client_certificate,
    fetch_system_roots,
    fetch_token,
    system_root_files,
    token_claims,
    token_facts,
)
from xds_proxy._config import UpstreamConfig
from xds_proxy.upstream._upstream_error import UpstreamError

FurtherRoots = Callable[[bytes], bytes]
"""Given the root file's content, returns the roots that are trusted besides; PEM."""

_MAX_FILE_BYTES = 1 << 20


OwnCertificate = Callable[[], ClientCertificate | None]
"""Returns the workload's own certificate as it is now; None if there is none that is valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The credentials of one stream.

    trusted: the roots that the control plane's certificate must chain to; None in plaintext.
    channel: for gRPC, with the client certificate if there is one; None in plaintext.
    metadata: of the call, with the token if there is one.
    shown: token and client certificate in words, for when the control plane refuses them.
    has_own: the workload's own certificate is shown.
    """

    trusted: TrustedRoots | None
    channel: grpc.ChannelCredentials | None
    metadata: tuple[tuple[str, str], ...] = field(repr=False)
    shown: str
    has_own: bool = False


async def fetch_credentials(
    config: UpstreamConfig,
    *,
    now: float,
    further_roots: FurtherRoots | None,
    own_certificate: OwnCertificate | None = None,
    token_refused: bool = False,
) -> Credentials:
    """Read roots, token and client certificate. now: Unix time, for the token's expiry.

    The workload's own certificate stands in for a token that is missing, has expired or was
    refused (`token_refused`). With a good token it is not shown: a control plane that can't verify
    it would refuse the connection.

    Raises:
        UpstreamError: a file cannot be read or used.
    """
    trusted = await _fetch_roots(config.root_certificate, further_roots)
    metadata = [(name.lower(), value) for name, value in config.metadata]
    if trusted is None:
        return Credentials(
            trusted=None, channel=None, metadata=tuple(metadata), shown="nothing was shown"
        )
    shown: list[str] = []
    certificate, no_certificate = await _fetch_client_certificate(config)
    if certificate is not None:
        shown.append(f"client certificate {config.client_certificate_path}")
    token, no_token = await _fetch_token(config.token_path)
    own = None
    wanted = token is None or token_refused or _has_expired(token, now=now)
    if wanted and certificate is None and own_certificate is not None:
        own = certificate = own_certificate()
    if own is not None:
        shown.append("the workload's own certificate")
    if token is not None:
        metadata.append(("authorization", f"Bearer {token}"))
        shown.insert(0, f"token {config.token_path} {token_facts(token, now=now)}")
    elif no_token and certificate is None:
        raise UpstreamError(no_token)
    if no_certificate:
        shown.append(no_certificate)
    return Credentials(
        trusted=trusted,
        channel=grpc.ssl_channel_credentials(
            trusted.roots_pem,
            None if certificate is None else certificate.key_pem,
            None if certificate is None else certificate.chain_pem,
        ),
        metadata=tuple(metadata),
        shown="; ".join(shown) or "nothing was shown",
        has_own=own is not None,
    )


def credential_files(config: UpstreamConfig) -> tuple[Path, ...]:
    """Return the files that `fetch_credentials` reads."""
    roots = config.root_certificate
    if roots is None:
        return ()
    named = (
        *(system_root_files() if isinstance(roots, SystemRoots) else (roots,)),
        config.token_path,
        config.client_certificate_path,
        config.client_key_path,
    )
    return tuple(each for each in named if each is not None)


async def _fetch_roots(
    source: Path | SystemRoots | None, further_roots: FurtherRoots | None
) -> TrustedRoots | None:
    if source is None:
        return None
    if source is SYSTEM:
        try:
            return await fetch_system_roots()
        except NoSystemRoots as error:
            raise UpstreamError(str(error)) from error
    pem = await _fetch(source, what="root certificate file")
    if b"-----BEGIN" not in pem:
        raise UpstreamError(f"root certificate file {source} holds no PEM certificate")
    further = further_roots(pem) if further_roots is not None else b""
    learned = " or one learned from the control plane" if further else ""
    return TrustedRoots(
        roots_pem=b"\n".join((pem, further)),
        described=f"a root in {source}{learned}",
        remedy=f"put the root that the control plane has now into {source}",
    )


async def _fetch_client_certificate(
    config: UpstreamConfig,
) -> tuple[ClientCertificate | None, str]:
    """Return the certificate, or why there is none: a machine may get its own later."""
    chain_path, key_path = config.client_certificate_path, config.client_key_path
    if chain_path is None or key_path is None:
        return None, ""
    try:
        return await fetch_client_certificate(chain_path, key_path), ""
    except NoClientCertificate as error:
        return None, f"no client certificate, as {chain_path} {error}"


async def _fetch_token(path: Path | None) -> tuple[str | None, str]:
    """Return the token, or why there is none."""
    if path is None:
        return None, ""
    try:
        token = await fetch_token(path)
    except TokenFileError as error:
        return None, str(error)
    if not token:
        said = "does not exist" if token is None else "is empty"
        return None, f"token file {path} {said}"
    return token, ""


def _has_expired(token: str, *, now: float) -> bool:
    claims = token_claims(token)
    return claims is not None and claims.expires_at is not None and claims.expires_at <= now


async def _fetch(path: Path, *, what: str) -> bytes:
    try:
        return await fetch_bytes(path, max_bytes=_MAX_FILE_BYTES)
    except FileNotFoundError:
        raise UpstreamError(f"{what} {path} does not exist") from None
    except OSError as error:
        raise UpstreamError(f"{what} {path} cannot be read: {error.strerror}") from error
