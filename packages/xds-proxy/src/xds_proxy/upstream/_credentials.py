"""The token, certificate and roots for the control plane, read again for each stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from mesh_filewatch import fetch_bytes
from mesh_identity import (
    NoSystemRoots,
    SystemRoots,
    TokenFileError,
    TrustedRoots,
    fetch_system_roots,
    fetch_token,
    token_facts,
)
from xds_proxy._config import UpstreamConfig
from xds_proxy._errors import UpstreamError

FurtherRoots = Callable[[bytes], bytes]
"""Given the root file's content, returns the roots that are trusted besides; PEM."""

_MAX_FILE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The credentials of one stream.

    trusted: the roots that the control plane's certificate must chain to; None in plaintext.
    channel: for gRPC, with the client certificate if there is one; None in plaintext.
    metadata: of the call, with the token if there is one.
    shown: token and client certificate in words, for when the control plane refuses them.
    """

    trusted: TrustedRoots | None
    channel: grpc.ChannelCredentials | None
    metadata: tuple[tuple[str, str], ...] = field(repr=False)
    shown: str


async def fetch_credentials(
    config: UpstreamConfig, *, now: float, further_roots: FurtherRoots | None
) -> Credentials:
    """Read roots, token and client certificate. now: Unix time, to judge the token by.

    Raises:
        UpstreamError: a file cannot be read or used.
    """
    trusted = await _fetch_roots(config.root_certificate, further_roots)
    metadata = [(name.lower(), value) for name, value in config.metadata]
    shown: list[str] = []
    if config.token_path is not None and trusted is not None:
        token = await _fetch_token(config.token_path)
        metadata.append(("authorization", f"Bearer {token}"))
        shown.append(f"token {config.token_path} {token_facts(token, now=now)}")
    channel = None
    if trusted is not None:
        chain, key = await _fetch_client_certificate(config)
        if chain is not None:
            shown.append(f"client certificate {config.client_certificate_path}")
        channel = grpc.ssl_channel_credentials(trusted.roots_pem, key, chain)
    return Credentials(
        trusted=trusted,
        channel=channel,
        metadata=tuple(metadata),
        shown="; ".join(shown) or "nothing was shown",
    )


async def _fetch_roots(
    source: Path | SystemRoots | None, further_roots: FurtherRoots | None
) -> TrustedRoots | None:
    if source is None:
        return None
    if isinstance(source, SystemRoots):
        try:
            return await fetch_system_roots()
        except NoSystemRoots as error:
            raise UpstreamError(str(error)) from error
    pem = await _fetch(source, what="root certificate file")
    further = further_roots(pem) if further_roots is not None else b""
    learned = " or one learned from the control plane" if further else ""
    return TrustedRoots(
        roots_pem=b"\n".join((pem, further)),
        described=f"a root in {source}{learned}",
        remedy=f"put the root that the control plane has now into {source}",
    )


async def _fetch_client_certificate(config: UpstreamConfig) -> tuple[bytes | None, bytes | None]:
    """Return chain and key, or neither: a machine may get its certificate later than its agent."""
    chain_path, key_path = config.client_certificate_path, config.client_key_path
    if chain_path is None or key_path is None:
        return None, None
    try:
        return (
            await _fetch(chain_path, what="client certificate file"),
            await _fetch(key_path, what="client key file"),
        )
    except _NoSuchFile:
        return None, None


async def _fetch_token(path: Path) -> str:
    try:
        token = await fetch_token(path)
    except TokenFileError as error:
        raise UpstreamError(str(error)) from error
    if not token:
        said = "does not exist" if token is None else "is empty"
        raise UpstreamError(f"token file {path} {said}")
    return token


async def _fetch(path: Path, *, what: str) -> bytes:
    try:
        return await fetch_bytes(path, max_bytes=_MAX_FILE_BYTES)
    except FileNotFoundError:
        raise _NoSuchFile(f"{what} {path} does not exist") from None
    except OSError as error:
        raise UpstreamError(f"{what} {path} cannot be read: {error.strerror}") from error


class _NoSuchFile(UpstreamError):
    """A file does not exist, which is no error for a client certificate."""
