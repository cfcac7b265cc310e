"""Opens a connection to one control plane: resolves its name and tries each of its addresses.

gRPC gets IP addresses and never a name, so that a name is resolved anew for each connection, by the
system's resolver, within the bound on time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from enum import Enum, auto
from itertools import zip_longest

import grpc
import grpc.aio

from mesh_identity import (
    ExpectedName,
    Fault,
    HostNotResolved,
    TrustedRoots,
    fetch_addresses,
    find_fault,
)
from mesh_listening.grpc_server import NO_COMPRESSION
from xds_proxy._config import Address
from xds_proxy.upstream._upstream_error import UpstreamError

_STAGGER_S = 0.25  # RFC 8305, section 5
_MOST_ADDRESSES = 32
_DIAGNOSIS_TIMEOUT_S = 2.0
_NO_RECONNECT_MS = 600_000

OpenChannel = Callable[[str], grpc.aio.Channel]
"""Given a target for gRPC, returns a channel to it."""


class Connector:
    """Connects to the control plane at one configured address."""

    def __init__(self, address: str, *, expected: ExpectedName, timeout_s: float) -> None:
        self._address = Address.parse(address)
        self._expected = expected
        self._timeout_s = timeout_s
        self._last_found: tuple[str, ...] = ()

    @asynccontextmanager
    async def connecting(
        self, open_channel: OpenChannel, *, trusted: TrustedRoots | None
    ) -> AsyncIterator[grpc.aio.Channel]:
        """Yield a ready channel; it is closed when the block ends.

        trusted: the roots that the channel's server is verified by; None in plaintext.

        Raises:
            UpstreamError: there was no connection within the bound on time, and why.
        """
        again = False
        while True:
            outcome = await self._attempt(open_channel, remembers=trusted is not None)
            if isinstance(outcome, grpc.aio.Channel):
                break
            silent = outcome is _Outcome.SILENT
            if silent and trusted is not None:
                # A second try would find the same, and another control plane may be waited for.
                raise UpstreamError(f"no answer within {self._timeout_s:g} s")
            reason = await self._why_not(trusted, silent=silent)
            # Without a reason, it may have come up since the attempt: try once more.
            if reason is not None or again or silent:
                raise UpstreamError(reason or _NOT_GRPC[trusted is None])
            again = True
        try:
            yield outcome
        finally:
            await outcome.close(None)

    async def _attempt(
        self, open_channel: OpenChannel, *, remembers: bool
    ) -> grpc.aio.Channel | _Outcome:
        give_up_at = asyncio.get_running_loop().time() + self._timeout_s
        found = await self._resolve(remembers=remembers)
        targets = [_target(each, self._address.port) for each in found]
        try:
            async with asyncio.timeout_at(give_up_at):
                return await first_ready(targets, open_channel) or _Outcome.FAILED
        except TimeoutError:
            return _Outcome.SILENT

    async def _resolve(self, *, remembers: bool) -> tuple[str, ...]:
        """Return the IP addresses; those of the last time if the resolver fails.

        remembers: whether those of the last time are good enough. They are where the server is
        verified, so that a stranger at an old address is found out.
        """
        last = self._last_found if remembers else ()
        # A resolver that hangs leaves half of the time for the addresses of the last time.
        timeout_s = self._timeout_s / 2 if last else self._timeout_s
        try:
            found = await fetch_addresses(self._address.host, timeout_s=timeout_s)
        except HostNotResolved as error:
            if not last:
                raise UpstreamError(str(error)) from error
            return last
        self._last_found = interleave(found)[:_MOST_ADDRESSES]
        return self._last_found

    async def _why_not(self, trusted: TrustedRoots | None, *, silent: bool) -> str | None:
        try:
            found = await find_fault(
                self._address.host,
                self._address.port,
                trusted=trusted,
                expected=self._expected,
                timeout_s=min(self._timeout_s, _DIAGNOSIS_TIMEOUT_S) if silent else self._timeout_s,
            )
        except ValueError:
            raise UpstreamError("the root certificate file holds no PEM certificate") from None
        if found is None:
            return None
        if found.fault is Fault.SILENT:
            return f"no answer within {self._timeout_s:g} s"
        return found.reason


class _Outcome(Enum):
    FAILED = auto()
    SILENT = auto()


_NOT_GRPC = {
    True: "it takes connections but does not speak plaintext gRPC: does it want TLS on this port?",
    False: "the TLS handshake succeeds but gRPC does not start: is it a gRPC server?",
}


def interleave(addresses: Sequence[str]) -> tuple[str, ...]:
    """Return the addresses with IPv4 and IPv6 alternating, each in its own order (RFC 8305)."""
    if not addresses:
        return ()
    first_is_ipv6 = ":" in addresses[0]
    first = [each for each in addresses if (":" in each) is first_is_ipv6]
    second = [each for each in addresses if (":" in each) is not first_is_ipv6]
    return tuple(each for pair in zip_longest(first, second) for each in pair if each is not None)


async def first_ready(
    targets: Sequence[str], open_channel: OpenChannel, *, stagger_s: float = _STAGGER_S
) -> grpc.aio.Channel | None:
    """Return a channel to the target that is connected to first; None if none can be.

    The next target is tried when one has failed, or `stagger_s` after the last try began.
    """
    waiting = list(reversed(targets))
    attempts: dict[asyncio.Task[bool], grpc.aio.Channel] = {}
    winner: grpc.aio.Channel | None = None
    try:
        while winner is None and (waiting or attempts):
            if waiting:
                channel = open_channel(waiting.pop())
                attempt = asyncio.create_task(_becomes_ready(channel), name="xds-proxy: connecting")
                attempts[attempt] = channel
            done, _ = await asyncio.wait(
                attempts,
                timeout=stagger_s if waiting else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for attempt in done:
                if attempt.result() and winner is None:
                    winner = attempts.pop(attempt)
                else:
                    await attempts.pop(attempt).close(None)
        return winner
    finally:
        for attempt in attempts:
            attempt.cancel()
        if attempts:
            await asyncio.wait(attempts)
        for channel in attempts.values():
            await channel.close(None)


async def _becomes_ready(channel: grpc.aio.Channel) -> bool:
    """Connect; returns whether it succeeded."""
    state = channel.get_state(try_to_connect=True)
    while state is not grpc.ChannelConnectivity.READY:
        if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            return False
        await channel.wait_for_state_change(state)
        state = channel.get_state(try_to_connect=True)
    return True


def _target(address: str, port: int) -> str:
    if ":" not in address:
        return f"ipv4:{address}:{port}"
    return f"ipv6:[{address.replace('%', '%25')}]:{port}"


def channel_options(
    *, authority: str, tls_name: str, max_message_bytes: int, keepalive_s: float
) -> list[tuple[str, int | str]]:
    """Return gRPC's settings of a connection.

    tls_name: the name that the certificate must bear. keepalive_s: between pings.
    """
    return [
        NO_COMPRESSION,
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", max_message_bytes),
        ("grpc.keepalive_time_ms", round(keepalive_s * 1000)),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.enable_retries", 0),
        # Otherwise a new channel would share the back-off of an earlier one to the same address,
        # and an attempt would fail without a connection having been tried.
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_http_proxy", 0),
        # gRPC's core may outlive the channel for a while, and would connect again a second after a
        # failure, outside of every backoff.
        ("grpc.initial_reconnect_backoff_ms", _NO_RECONNECT_MS),
        ("grpc.max_reconnect_backoff_ms", _NO_RECONNECT_MS),
        # The target is an IP address.
        ("grpc.default_authority", authority),
        ("grpc.ssl_target_name_override", tls_name),
    ]
