"""One stream to the control plane: credentials read afresh, dialled, closed with its channel."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from xds_proxy._config import Address, SystemRoots, UpstreamConfig
from xds_proxy._diagnosis import why_unreachable
from xds_proxy._errors import UpstreamError

ControlPlaneCall = (
    Any  # grpc.aio.StreamStreamCall[bytes, bytes]; the class takes no parameters at run time
)

_MAX_TOKEN_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Roots:
    pem: bytes
    path: Path
    described: str


@asynccontextmanager
async def dialled(
    config: UpstreamConfig, *, path: str, max_message_bytes: int
) -> AsyncIterator[ControlPlaneCall]:
    """A new call of `path` on a new, ready connection.

    Raises:
        UpstreamError: within `connect_timeout_s` no connection came about, and why.
    """
    address = Address.parse(config.address)
    server_name = config.server_name or address.host
    roots = _read_roots(config.root_certificate)
    metadata = [(name.lower(), value) for name, value in config.metadata]
    if config.token_path is not None and roots is not None:
        metadata.append(("authorization", f"Bearer {_read_token(config.token_path)}"))

    options = _channel_options(config.server_name, max_message_bytes)
    if roots is None:
        channel = grpc.aio.insecure_channel(config.address, options=options)
    else:
        chain, key = _read_client_certificate(config)
        credentials = grpc.ssl_channel_credentials(roots.pem, key, chain)
        channel = grpc.aio.secure_channel(config.address, credentials, options=options)
    try:
        if not await _connects(channel, config.connect_timeout_s):
            reason = await why_unreachable(
                address,
                tls=_tls_context(roots) if roots else None,
                server_name=server_name,
                roots=roots.described if roots else "",
                timeout_s=config.connect_timeout_s,
            )
            raise UpstreamError(reason or _NOT_GRPC[roots is None])
        open_stream: Any = channel.stream_stream  # its stubs know no stream of raw bytes
        call = open_stream(path)(metadata=metadata)
        try:
            yield call
        finally:
            call.cancel()
    finally:
        await channel.close(None)


_NOT_GRPC = {
    True: "it takes connections but does not speak plaintext gRPC: does it want TLS on this port?",
    False: "the TLS handshake succeeds but gRPC does not start: is it a gRPC server?",
}


def _channel_options(
    server_name: str | None, max_message_bytes: int
) -> list[tuple[str, int | str]]:
    options: list[tuple[str, int | str]] = [
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", max_message_bytes),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.enable_retries", 0),
        # Else a new channel inherits the back-off of an earlier one to the same address, and
        # Envoy's attempt would fail without a connection having been tried.
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_http_proxy", 0),
    ]
    if server_name is not None:
        options.append(("grpc.ssl_target_name_override", server_name))
        options.append(("grpc.default_authority", server_name))
    return options


async def _connects(channel: grpc.aio.Channel, timeout_s: float) -> bool:
    try:
        async with asyncio.timeout(timeout_s):
            state = channel.get_state(try_to_connect=True)
            while state is not grpc.ChannelConnectivity.READY:
                if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                    return False
                await channel.wait_for_state_change(state)
                state = channel.get_state(try_to_connect=True)
    except TimeoutError:
        return False
    return True


def _read_roots(source: Path | SystemRoots | None) -> _Roots | None:
    if source is None:
        return None
    if isinstance(source, SystemRoots):
        bundle = ssl.get_default_verify_paths().cafile
        if bundle is None:
            raise UpstreamError(
                "the system's root certificates were not found: set SSL_CERT_FILE,"
                " or name a root certificate file"
            )
        path, described = Path(bundle), f"one of the system's roots ({bundle})"
    else:
        path, described = source, f"a root in {source}"
    return _Roots(pem=_read(path, what="root certificate file"), path=path, described=described)


def _tls_context(roots: _Roots) -> ssl.SSLContext:
    """The same roots for the standard library; made when needed, for it costs a megabyte."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.minimum_version = ssl.TLSVersion.TLSv1_2
    tls.set_alpn_protocols(["h2"])
    try:
        tls.load_verify_locations(cadata=roots.pem.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError):
        raise UpstreamError(
            f"root certificate file {roots.path} holds no PEM certificate"
        ) from None
    return tls


def _read_client_certificate(config: UpstreamConfig) -> tuple[bytes | None, bytes | None]:
    """Chain and key, or neither: a machine may get its certificate later than its agent."""
    chain_path, key_path = config.client_certificate_path, config.client_key_path
    if chain_path is None or key_path is None:
        return None, None
    if not (chain_path.exists() and key_path.exists()):
        return None, None
    return (
        _read(chain_path, what="client certificate file"),
        _read(key_path, what="client key file"),
    )


def _read_token(path: Path) -> str:
    token = _read(path, what="token file").strip()
    if not token:
        raise UpstreamError(f"token file {path} is empty")
    if len(token) > _MAX_TOKEN_BYTES or not all(0x20 < byte < 0x7F for byte in token):
        # from None and without the content: a token never reaches a log
        raise UpstreamError(
            f"token file {path} does not hold a bearer token: expected one line of ASCII"
        )
    return token.decode("ascii")


def _read(path: Path, *, what: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UpstreamError(f"{what} {path} does not exist") from None
    except OSError as error:
        raise UpstreamError(f"{what} {path} cannot be read: {error.strerror}") from error
