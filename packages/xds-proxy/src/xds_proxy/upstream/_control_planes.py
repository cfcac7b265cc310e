"""The control planes that the relay is connected to: streams go to the first one that is healthy.

Envoy's streams don't end when the control plane changes, so a stream to a later address is moved
back once an earlier one can be reached again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from datetime import UTC, datetime
from functools import partial

import grpc
import grpc.aio

from mesh_identity import ExpectedName
from mesh_lifecycle import Backoff, Clock, SystemClock, in_background
from xds_proxy._config import Address, UpstreamConfig
from xds_proxy.protocol._dialect import Dialect
from xds_proxy.translation._translator import translator
from xds_proxy.upstream._call import ControlPlaneCall
from xds_proxy.upstream._connecting import Connector, channel_options
from xds_proxy.upstream._credential_watch import retry_when_files_change
from xds_proxy.upstream._credentials import (
    Credentials,
    FurtherRoots,
    OwnCertificate,
    credential_files,
    fetch_credentials,
)
from xds_proxy.upstream._keepalive import Keepalive
from xds_proxy.upstream._outcomes import NullOutcome, StreamOutcome
from xds_proxy.upstream._selection import LOOK, ControlPlaneEntry, ControlPlaneStatus, Selection
from xds_proxy.upstream._spoken_dialects import SpokenDialects
from xds_proxy.upstream._translated_call import TranslatedCall
from xds_proxy.upstream._upstream_error import UpstreamError

log = logging.getLogger("xds_proxy")

_REFUSALS = frozenset({grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED})
"""The codes by which a control plane says that it does not serve this caller."""


class ControlPlanes:
    """Opens streams to the control planes; created by `control_planes`."""

    def __init__(
        self,
        config: UpstreamConfig,
        *,
        max_message_bytes: int,
        further_roots: FurtherRoots | None,
        own_certificate: OwnCertificate | None,
        moves_back: bool,
        look: Backoff,
        clock: Clock,
    ) -> None:
        self._config = config
        self._max_message_bytes = max_message_bytes
        self._further_roots = further_roots
        self._own_certificate = own_certificate
        self._token_refused: set[str] = set()
        self._moves_back = moves_back
        self._clock = clock
        self._selection = Selection(
            [each.address for each in config.addresses],
            monotonic=clock.monotonic,
            now=self._now,
            look=look,
        )
        self._connectors = {
            each.address: Connector(
                each.address,
                expected=ExpectedName(
                    each.server_name or Address.parse(each.address).host,
                    config.server_name_setting,
                ),
                timeout_s=config.connect_timeout_s,
            )
            for each in config.addresses
        }
        self._spoken = SpokenDialects()
        self._names = {each.address: each.server_name for each in config.addresses}
        self._keepalive = {
            each.address: Keepalive(each.address, config.keepalive_s) for each in config.addresses
        }
        self._calls: dict[ControlPlaneCall, ControlPlaneEntry] = {}
        self._used: str = config.address
        self._changed = asyncio.Event()
        self._watches_files = asyncio.Event()

    @property
    def description(self) -> str:
        """The addresses, as a part of a sentence."""
        return ", ".join(self._names)

    @property
    def statuses(self) -> tuple[ControlPlaneStatus, ...]:
        """The status of each control plane, in the order of preference."""
        return self._selection.statuses

    @property
    def wait_s(self) -> float:
        """How long `wait_to_retry` would wait now."""
        return self._selection.wait_s()

    async def wait_to_retry(self) -> None:
        """Wait until the next stream is worth trying.

        At once after a failure if another control plane is there; else for a delay that grows with
        each failure, and is over when a file that connections depend on changes.
        """
        while (wait_s := self._selection.wait_s()) > 0:
            await self._wait_for_change(wait_s)

    @asynccontextmanager
    async def call(self, dialect: Dialect) -> AsyncIterator[ControlPlaneCall]:
        """Open an ADS stream on a connection of its own, to the first control plane that takes it.

        Raises:
            UpstreamError: no control plane could be connected to, and why.
        """
        async with AsyncExitStack() as stack:
            entry, channel, credentials = await self._connect_to_first(stack)
            call = self._stream(entry, channel, credentials, dialect)
            with self._counting(call, entry):
                async with call.at_work():
                    yield call

    def _stream(
        self,
        entry: ControlPlaneEntry,
        channel: grpc.aio.Channel,
        credentials: Credentials,
        dialect: Dialect,
    ) -> ControlPlaneCall:
        """Open an ADS stream, in the other dialect if the control plane does not serve Envoy's."""
        spoken = self._spoken.dialect(entry.address, dialect)
        outcome = StreamOutcome(self, entry, spoken)
        timeout_s = self._config.answer_timeout_s
        # No variable here may hold gRPC's call, see ControlPlaneCall.
        if spoken is dialect:
            return ControlPlaneCall(
                channel.stream_stream(spoken.path, None, None)(None, metadata=credentials.metadata),
                address=entry.address,
                shown=credentials.shown,
                outcome=outcome,
                answer_timeout_s=timeout_s,
            )
        return TranslatedCall(
            channel.stream_stream(spoken.path, None, None)(None, metadata=credentials.metadata),
            translator(envoy=dialect, control_plane=spoken, max_bytes=self._max_message_bytes),
            address=entry.address,
            shown=credentials.shown,
            outcome=outcome,
            answer_timeout_s=timeout_s,
        )

    @asynccontextmanager
    async def call_method(self, path: str) -> AsyncIterator[ControlPlaneCall]:
        """Open a stream of another gRPC method. Raises UpstreamError.

        Only whether there is a connection says something of the control plane, not how the stream
        goes: it may not have the service at all.
        """
        async with AsyncExitStack() as stack:
            entry, channel, credentials = await self._connect_to_first(stack)
            # No variable here may hold gRPC's call, see ControlPlaneCall.
            call = ControlPlaneCall(
                channel.stream_stream(path, None, None)(None, metadata=credentials.metadata),
                address=entry.address,
                shown=credentials.shown,
                outcome=NullOutcome(),
                answer_timeout_s=None,
            )
            with self._counting(call, entry):
                yield call

    @contextmanager
    def _counting(self, call: ControlPlaneCall, entry: ControlPlaneEntry) -> Iterator[None]:
        """Know of a call as long as the block runs, and release it then."""
        self._calls[call] = entry
        entry.streams += 1
        keepalive = self._keepalive[entry.address]
        interval_s = keepalive.interval_s
        try:
            yield
        finally:
            if call.ended_with is not None:
                keepalive.on_end(*call.ended_with, interval_s=interval_s)
            entry.streams -= 1
            del self._calls[call]
            call.release()

    async def _connect_to_first(
        self, stack: AsyncExitStack
    ) -> tuple[ControlPlaneEntry, grpc.aio.Channel, Credentials]:
        """Connect to the first control plane that takes a connection; `stack` closes it."""
        failure: UpstreamError | None = None
        for entry in self._selection.to_try():
            try:
                credentials = await self._credentials(entry)
                channel = await stack.enter_async_context(self._connecting(entry, credentials))
            except UpstreamError as error:
                failure = error
                self._token_refused.discard(entry.address)
                self._set_failed(entry, error.reason)
                continue
            return entry, channel, credentials
        code = grpc.StatusCode.UNAVAILABLE if failure is None else failure.code
        raise UpstreamError(self._selection.why_none(), code=code) from failure

    async def _credentials(self, entry: ControlPlaneEntry) -> Credentials:
        return await fetch_credentials(
            self._config,
            now=self._clock.now(),
            further_roots=self._further_roots,
            own_certificate=self._own_certificate,
            token_refused=entry.address in self._token_refused,
        )

    def _connecting(
        self, entry: ControlPlaneEntry, credentials: Credentials
    ) -> AbstractAsyncContextManager[grpc.aio.Channel]:
        name = self._names[entry.address]
        options = channel_options(
            authority=name or entry.address,
            tls_name=name or Address.parse(entry.address).host,
            max_message_bytes=self._max_message_bytes,
            keepalive_s=self._keepalive[entry.address].interval_s,
        )

        def open_channel(target: str) -> grpc.aio.Channel:
            if credentials.channel is None:
                return grpc.aio.insecure_channel(target, options=options)
            return grpc.aio.secure_channel(target, credentials.channel, options=options)

        return self._connectors[entry.address].connecting(open_channel, trusted=credentials.trusted)

    # Called by the streams

    def on_answer(self, entry: ControlPlaneEntry) -> None:
        """A stream to a control plane has its first response."""
        self._selection.on_answer(entry)
        if entry.address != self._used:
            self._log_change(self._used, entry.address)
            self._used = entry.address
        self._notify_change()
        self._move_calls()

    def on_unimplemented(self, entry: ControlPlaneEntry, dialect: Dialect) -> str | None:
        """Return why the next stream is translated; None if the other dialect is not served too."""
        instead = self._spoken.on_unimplemented(entry.address, dialect)
        if instead is None:
            return None
        reason = f"it does not serve {dialect.name} xDS: streams to it speak {instead.name}"
        log.info("xDS is translated", extra={"address": entry.address, "reason": reason})
        return reason

    def _set_failed(self, entry: ControlPlaneEntry, reason: str, *, refused: bool = False) -> None:
        # Once it is back it may serve another dialect.
        self._spoken.forget(entry.address)
        self._selection.on_failure(entry, reason, refused=refused)
        self._notify_change()

    def on_failure(self, entry: ControlPlaneEntry, reason: str, code: grpc.StatusCode) -> None:
        """A stream to a control plane has failed before its first response."""
        if code is grpc.StatusCode.UNAUTHENTICATED:
            # Again without it, if it was refused with it: the one may be renewed, or the other.
            self._token_refused ^= {entry.address}
        self._set_failed(entry, reason, refused=code in _REFUSALS)

    def on_end(self, entry: ControlPlaneEntry, *, lasted_s: float) -> None:
        """A stream to a control plane has ended as streams do."""
        self._selection.on_end(entry, lasted_s=lasted_s)
        self._notify_change()

    def on_silence(self, entry: ControlPlaneEntry, waited_s: float) -> str | None:
        """Return why a stream to it is given up; None if there is no other to go to."""
        reason = f"it takes streams but has not answered one for {waited_s:g} s"
        if not self._selection.has_other(entry) and entry.last_error != reason:
            log.warning(
                "the control plane does not answer",
                extra={"address": entry.address, "reason": reason, "next": "waiting for it"},
            )
        self._set_failed(entry, reason)
        return reason if self._selection.has_other(entry) else None

    def _log_change(self, before: str, after: str) -> None:
        order = list(self._names)
        if order.index(after) < order.index(before):
            log.info("a preferred control plane is used again", extra={"address": after})
            return
        failed = self._selection.statuses[order.index(before)]
        log.warning(
            "another control plane is used",
            extra={"address": after, "failed": before, "reason": failed.last_error},
        )

    def _notify_change(self) -> None:
        """Wake all that wait for a change."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _wait_for_change(self, timeout_s: float | None) -> None:
        changed = self._changed
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await changed.wait()

    async def _return_to_preferred(self) -> None:
        """Look at preferred control planes that failed, and move streams back to one that is up."""
        while True:
            now, entries = self._clock.monotonic(), self._selection.to_look_at()
            due = [entry for entry in entries if entry.look.due_at <= now]
            for entry in due:
                await self._look_at(entry)
            if not due:
                due_at = min((entry.look.due_at for entry in entries), default=None)
                await self._wait_for_change(None if due_at is None else due_at - now)

    async def _look_at(self, entry: ControlPlaneEntry) -> None:
        error: str | None = None
        try:
            async with self._connecting(entry, await self._credentials(entry)):
                pass
        except UpstreamError as failure:
            error = failure.reason
        self._selection.on_look(entry, error)
        self._notify_change()
        self._move_calls()

    def _move_calls(self) -> None:
        """End streams to later addresses if a preferred one is not known to fail."""
        if not self._moves_back:
            return
        order = self._selection.entries
        preferred = next((n for n, entry in enumerate(order) if not entry.fails), None)
        for call, entry in list(self._calls.items()):
            if preferred is not None and preferred < order.index(entry):
                call.move(f"the control plane at {order[preferred].address} is preferred")

    async def _retry_when_files_change(self) -> None:
        await retry_when_files_change(
            credential_files(self._config),
            failing=self._selection.fails_for_long,
            next_change=partial(self._wait_for_change, None),
            watched=self._watches_files,
            retry=self._retry_now,
        )

    def _retry_now(self) -> None:
        self._selection.retry_now()
        self._notify_change()

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now(), tz=UTC)


@asynccontextmanager
async def control_planes(
    config: UpstreamConfig,
    *,
    max_message_bytes: int,
    further_roots: FurtherRoots | None = None,
    own_certificate: OwnCertificate | None = None,
    moves_back: bool = True,
    look: Backoff = LOOK,
    clock: Clock | None = None,
) -> AsyncIterator[ControlPlanes]:
    """Open streams to the control planes as long as the block runs.

    further_roots, own_certificate: as for `relaying`.
    moves_back: whether a stream to a later address is ended once an earlier one can be connected
        to again.
    look: the delays between looks at that.
    """
    planes = ControlPlanes(
        config,
        max_message_bytes=max_message_bytes,
        further_roots=further_roots,
        own_certificate=own_certificate,
        moves_back=moves_back,
        look=look,
        clock=clock or SystemClock(),
    )
    async with (
        in_background(planes._return_to_preferred(), name="xds-proxy: preferred control plane"),
        in_background(planes._retry_when_files_change(), name="xds-proxy: credential files"),
    ):
        yield planes
