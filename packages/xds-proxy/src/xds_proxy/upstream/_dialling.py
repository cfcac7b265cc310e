"""Opens a stream to the control plane on a connection of its own, and closes both afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import Enum, auto

import grpc
import grpc.aio

from mesh_identity import ExpectedName, why_unreachable
from xds_proxy._config import Address, UpstreamConfig
from xds_proxy._errors import UpstreamError
from xds_proxy.upstream._call import ControlPlaneCall
from xds_proxy.upstream._credentials import FurtherRoots, fetch_credentials


@asynccontextmanager
async def dialled(
    config: UpstreamConfig,
    *,
    path: str,
    max_message_bytes: int,
    now: float,
    further_roots: FurtherRoots | None = None,
) -> AsyncIterator[ControlPlaneCall]:
    """Call the method `path` on a new connection. now: Unix time, to judge the token by.

    Raises:
        UpstreamError: there was no connection within `connect_timeout_s`, and why.
    """
    address = Address.parse(config.address)
    credentials = await fetch_credentials(config, now=now, further_roots=further_roots)
    options = _channel_options(config.server_name, max_message_bytes)

    def open_channel() -> grpc.aio.Channel:
        if credentials.channel is None:
            return grpc.aio.insecure_channel(config.address, options=options)
        return grpc.aio.secure_channel(config.address, credentials.channel, options=options)

    async def why_not() -> str | None:
        try:
            return await why_unreachable(
                address.host,
                address.port,
                trusted=credentials.trusted,
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
        otherwise=_NOT_GRPC[credentials.channel is None],
    ) as channel:
        # No variable here may hold gRPC's call, see ControlPlaneCall.
        call = ControlPlaneCall(
            channel.stream_stream(path, None, None)(None, metadata=credentials.metadata),
            shown=credentials.shown,
        )
        try:
            yield call
        finally:
            call.release()


@asynccontextmanager
async def _connected(
    open_channel: Callable[[], grpc.aio.Channel],
    why_not: Callable[[], Awaitable[str | None]],
    *,
    timeout_s: float,
    otherwise: str,
) -> AsyncIterator[grpc.aio.Channel]:
    """Yield a ready channel. Raises UpstreamError with the reason, or `otherwise` without one."""
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
        # Without a reason, the control plane may have come up since the attempt: try once more.
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
        # Otherwise a new channel would share the back-off of an earlier one to the same address,
        # and Envoy's attempt would fail without a connection having been tried.
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
