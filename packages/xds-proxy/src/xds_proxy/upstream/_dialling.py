"""One stream to the control plane: credentials read afresh, dialled, closed with its channel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import Enum, auto
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from mesh_filewatch import fetch_bytes
from mesh_identity import (
    ExpectedName,
    NoSystemRoots,
    SystemRoots,
    TokenFileError,
    Trusted,
    fetch_system_roots,
    fetch_token,
    token_facts,
    why_unreachable,
)
from xds_proxy._config import Address, UpstreamConfig
from xds_proxy._errors import UpstreamError


class ControlPlaneCall:
    """A call that is lent for as long as its block runs.

    gRPC keeps a connection open until the last of its calls is freed. The frames that an exception
    passed hold on to what they were given, and asyncio's task groups leave such exceptions to the
    garbage collector, which may not come for hours to an idle agent. So they are given this.
    """

    def __init__(self, call: Any, *, shown: str) -> None:
        """shown: what the caller proves itself by, in words, for when that is not accepted."""
        # grpc.aio.StreamStreamCall[bytes, bytes]; the class takes no parameters at run time
        self._call = call
        self.shown = shown

    def read(self) -> Awaitable[Any]:
        """The next message, or EOF."""
        reading: Awaitable[Any] = self._call.read()
        return reading

    def write(self, message: bytes) -> Awaitable[None]:
        """Send a message."""
        writing: Awaitable[None] = self._call.write(message)
        return writing

    def code(self) -> Awaitable[grpc.StatusCode]:
        """How the call ended; waits for its end."""
        code: Awaitable[grpc.StatusCode] = self._call.code()
        return code

    def details(self) -> Awaitable[str | None]:
        """Why the call ended; waits for its end."""
        details: Awaitable[str | None] = self._call.details()
        return details

    def give_back(self) -> None:
        """Cancel the call and let go of it."""
        self._call.cancel()
        self._call = None


FurtherRoots = Callable[[bytes], bytes]
"""Given the root file's content, the roots that are trusted besides; PEM."""

_MAX_FILE_BYTES = 1 << 20


@asynccontextmanager
async def dialled(
    config: UpstreamConfig,
    *,
    path: str,
    max_message_bytes: int,
    now: float,
    further_roots: FurtherRoots | None = None,
) -> AsyncIterator[ControlPlaneCall]:
    """A new call of `path` on a new, ready connection. `now`: Unix time, to judge the token by.

    Raises:
        UpstreamError: within `connect_timeout_s` no connection came about, and why.
    """
    address = Address.parse(config.address)
    roots = await _read_roots(config.root_certificate, further_roots)
    metadata = [(name.lower(), value) for name, value in config.metadata]
    shown: list[str] = []
    if config.token_path is not None and roots is not None:
        token = await _read_token(config.token_path)
        metadata.append(("authorization", f"Bearer {token}"))
        shown.append(f"token {config.token_path} {token_facts(token, now=now)}")

    options = _channel_options(config.server_name, max_message_bytes)
    credentials = None
    if roots is not None:
        chain, key = await _read_client_certificate(config)
        if chain is not None:
            shown.append(f"client certificate {config.client_certificate_path}")
        credentials = grpc.ssl_channel_credentials(roots.roots_pem, key, chain)

    def open_channel() -> grpc.aio.Channel:
        if credentials is None:
            return grpc.aio.insecure_channel(config.address, options=options)
        return grpc.aio.secure_channel(config.address, credentials, options=options)

    async def why_not() -> str | None:
        try:
            return await why_unreachable(
                address.host,
                address.port,
                trusted=roots,
                expected=ExpectedName(
                    config.server_name or address.host, config.server_name_setting
                ),
                timeout_s=config.connect_timeout_s,
            )
        except ValueError:
            raise UpstreamError(
                f"root certificate file {config.root_certificate} holds no PEM certificate"
            ) from None

    async with _connected(
        open_channel,
        why_not,
        timeout_s=config.connect_timeout_s,
        otherwise=_NOT_GRPC[roots is None],
    ) as channel:
        open_stream: Any = channel.stream_stream  # its stubs know no stream of raw bytes
        call = ControlPlaneCall(
            open_stream(path)(metadata=metadata), shown="; ".join(shown) or "nothing was shown"
        )
        try:
            yield call
        finally:
            call.give_back()


@asynccontextmanager
async def _connected(
    open_channel: Callable[[], grpc.aio.Channel],
    why_not: Callable[[], Awaitable[str | None]],
    *,
    timeout_s: float,
    otherwise: str,
) -> AsyncIterator[grpc.aio.Channel]:
    """A ready channel. Raises UpstreamError with the reason, or `otherwise` if there is none."""
    again = False
    while True:
        channel = open_channel()
        try:
            outcome = await _connect(channel, timeout_s)
            if outcome is _Outcome.READY:
                yield channel
                return
        finally:
            await channel.close(None)
        reason = await why_not()
        # What fails though nothing is in the way has come up meanwhile, unless it fails again.
        if reason is not None or again or outcome is _Outcome.SILENT:
            raise UpstreamError(reason or otherwise)
        again = True


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


class _Outcome(Enum):
    READY = auto()
    FAILED = auto()
    SILENT = auto()


async def _connect(channel: grpc.aio.Channel, timeout_s: float) -> _Outcome:
    try:
        async with asyncio.timeout(timeout_s):
            state = channel.get_state(try_to_connect=True)
            while state is not grpc.ChannelConnectivity.READY:
                if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                    return _Outcome.FAILED
                await channel.wait_for_state_change(state)
                state = channel.get_state(try_to_connect=True)
    except TimeoutError:
        return _Outcome.SILENT
    return _Outcome.READY


async def _read_roots(
    source: Path | SystemRoots | None, further_roots: FurtherRoots | None
) -> Trusted | None:
    if source is None:
        return None
    if isinstance(source, SystemRoots):
        try:
            return await fetch_system_roots()
        except NoSystemRoots as error:
            raise UpstreamError(str(error)) from error
    pem = await _read(source, what="root certificate file")
    further = further_roots(pem) if further_roots is not None else b""
    learned = " or one learned from the control plane" if further else ""
    return Trusted(
        roots_pem=b"\n".join((pem, further)),
        described=f"a root in {source}{learned}",
        remedy=f"put the root that the control plane has now into {source}",
    )


async def _read_client_certificate(config: UpstreamConfig) -> tuple[bytes | None, bytes | None]:
    """Chain and key, or neither: a machine may get its certificate later than its agent."""
    chain_path, key_path = config.client_certificate_path, config.client_key_path
    if chain_path is None or key_path is None:
        return None, None
    try:
        return (
            await _read(chain_path, what="client certificate file"),
            await _read(key_path, what="client key file"),
        )
    except _NoSuchFile:
        return None, None


async def _read_token(path: Path) -> str:
    try:
        token = await fetch_token(path)
    except TokenFileError as error:
        raise UpstreamError(str(error)) from error
    if not token:
        said = "does not exist" if token is None else "is empty"
        raise UpstreamError(f"token file {path} {said}")
    return token


async def _read(path: Path, *, what: str) -> bytes:
    try:
        return await fetch_bytes(path, max_bytes=_MAX_FILE_BYTES)
    except FileNotFoundError:
        raise _NoSuchFile(f"{what} {path} does not exist") from None
    except OSError as error:
        raise UpstreamError(f"{what} {path} cannot be read: {error.strerror}") from error


class _NoSuchFile(UpstreamError):
    """A file that is not there, which for some is no mistake."""
