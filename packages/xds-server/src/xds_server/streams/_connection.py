"""One stream for as long as it lasts: requests answered and changes pushed, one at a time.

A reader takes requests in, a worker does everything else. They are two tasks, because a lone
loop over the requests would take the server's stop for the client's goodbye.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import grpc

from mesh_lifecycle import Clock, in_background
from mesh_listening import PendingWrites
from xds_server._config import ServerConfig
from xds_server._errors import BadRequest, NotRead, Refused, StreamRefused
from xds_server._signal import Signal
from xds_server.monitoring._observer import StreamObserver
from xds_server.monitoring._status import ClientStatus, Nack, PushStatus, shortened
from xds_server.protocol._request import DeltaRequest, SotwRequest
from xds_server.protocol._resource import Resource
from xds_server.protocol._response import Response
from xds_server.protocol._type_urls import short_name
from xds_server.pushing._push_request import PushRequest
from xds_server.pushing._push_throttle import PushPermit
from xds_server.sources._generated import Generated
from xds_server.sources._generator import Client, Generator
from xds_server.streams._push_counts import PushCounts
from xds_server.streams._push_description import PushDescriptions
from xds_server.streams._rate_limit import RateLimit
from xds_server.streams._unserved import MAX_A_STREAM as MAX_UNSERVED
from xds_server.streams._unserved import UnservedTypes, nothing
from xds_server.subscriptions._stream_state import StreamState
from xds_server.subscriptions._subscription import Query

if TYPE_CHECKING:
    from xds_server.monitoring._metrics import Metrics

log = logging.getLogger(__name__)

C = TypeVar("C")

_READ_AHEAD = 8
"""Requests taken in before they are worked on; beyond that the client has to wait."""

_REFUSALS_TOLD = 10
"""Refusals in a row that are logged if each has a reason of its own."""
_REFUSALS_TOLD_AGAIN = frozenset(10**power for power in range(1, 10))
"""... and after that, and with one reason for all, when they are as many as this."""

Read = Callable[[], Awaitable[object]]
"""The next message of a client; what is not bytes says that it has no more to say."""
Write = Callable[[bytes], Awaitable[None]]
Parse = Callable[[bytes], SotwRequest | DeltaRequest]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies(Generic[C]):
    """What a connection needs of its server."""

    generators: Mapping[str, Generator[C]]
    config: ServerConfig
    clock: Clock
    metrics: Metrics
    version: Callable[[], str]
    observer: StreamObserver[C]
    pending_writes: PendingWrites
    descriptions: PushDescriptions
    unserved: UnservedTypes
    is_behind: Callable[[Connection[C], bool], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """A push handed to a connection: what for, and what to call when it is over."""

    request: PushRequest
    permit: PushPermit
    done: Callable[[], None]


class Connection(Generic[C]):
    """One stream of an admitted client."""

    __slots__ = (
        "_address",
        "_catching_up",
        "_client_finished",
        "_closed_because",
        "_connected_since",
        "_delta",
        "_inbox",
        "_inbox_space",
        "_last_push",
        "_parse",
        "_push",
        "_push_counts",
        "_push_stuck",
        "_pushing",
        "_rate",
        "_server",
        "_state",
        "_wake",
        "_was_slow",
        "_worker",
        "_writing",
        "client",
    )

    def __init__(
        self,
        client: Client[C],
        state: StreamState[Any],
        *,
        first: SotwRequest | DeltaRequest,
        server: Dependencies[C],
        parse: Parse,
        address: str,
        delta: bool,
    ) -> None:
        self.client = client
        self._state = state
        self._server = server
        self._parse = parse
        self._address = address
        self._delta = delta
        self._connected_since = server.clock.now()
        # A list, as it is short, and a deque's first block costs every idle stream 600 bytes.
        self._inbox: list[SotwRequest | DeltaRequest] = [first]
        self._push: Push | None = None
        self._pushing: Iterator[Response | None] | None = None
        self._push_counts: PushCounts | None = None
        self._last_push: PushStatus | None = None
        self._push_stuck = False
        self._catching_up = False
        self._writing = self._was_slow = False
        self._worker: asyncio.Task[object] | None = None
        self._closed_because: Refused | None = None
        self._rate = _request_rate(server)
        self._client_finished = False
        self._wake = Signal()
        self._inbox_space = Signal()

    def start_push(self, push: Push) -> None:
        """Push this as soon as the requests at hand are answered."""
        self._push = push
        self._wake.set()

    @property
    def reads_slowly(self) -> bool:
        """Whether the client is being waited for, or was for long: it may not read at all."""
        return self._writing or self._was_slow

    def close_for_not_reading(self, *, waited_s: float, size: int, reason: str) -> None:
        """End the stream; the response it has not taken is of no use any more."""
        self._server.metrics.send_timeouts.inc()
        log.warning(
            "client closed, it does not read",
            extra={
                **self.log_facts(),
                "waited_s": round(waited_s, 1),
                "bytes": size,
                "reason": reason,
            },
        )
        self._closed_because = NotRead(
            grpc.StatusCode.DEADLINE_EXCEEDED,
            f"a response of {size} bytes was not read for {waited_s:.0f} s: {reason}",
        )
        if self._worker is not None:
            self._worker.cancel()

    def watches(self, type_urls: AbstractSet[str]) -> bool:
        """Whether the client wants any of these types."""
        return not type_urls.isdisjoint(self._state.subscriptions)

    @property
    def state(self) -> StreamState[Any]:
        return self._state

    def log_facts(self) -> dict[str, object]:
        """What the log says of it."""
        return {"client": self.client.id, "address": self._address, "delta": self._delta}

    def status(self) -> ClientStatus:
        clock = self._server.clock
        wall_offset = clock.now() - clock.monotonic()
        return ClientStatus(
            id=self.client.id,
            node=self.client.node,
            identities=self.client.identities,
            address=self._address,
            delta=self._delta,
            connected_since=self._connected_since,
            types={
                type_url: subscription.status(wall_offset=wall_offset)
                for type_url, subscription in self._state.subscriptions.items()
            },
            last_push=self._last_push,
        )

    def client_has(self) -> Mapping[str, tuple[Resource, ...]]:
        """What the client has, by type."""
        return {
            type_url: tuple(subscription.client_has.values())
            for type_url, subscription in self._state.subscriptions.items()
        }

    async def run(self, read: Read, write: Write) -> None:
        """Serve the stream until the client says goodbye. Raises `Refused` for a bad one."""
        self._worker = asyncio.current_task()
        try:
            # A TaskGroup would leave every stream that is cancelled to the garbage collector: until
            # Python 3.13 its frame and the error in it hold each other.
            async with in_background(self._read(read), name=f"xds reader {self.client.id}"):
                await self._work(write)
        except asyncio.CancelledError:
            if self._closed_because is None or self._worker is None or self._worker.uncancel():
                raise
            raise self._closed_because from None
        except Refused:
            raise
        except Exception:  # A fault of ours, or of an observer: it costs this stream.
            self._server.metrics.internal_errors.inc()
            log.exception("stream failed", extra={"client": self.client.id})
            raise StreamRefused(grpc.StatusCode.INTERNAL, "internal error") from None
        finally:
            self._worker = None
            self._finish_push()

    async def _read(self, read: Read) -> None:
        while isinstance(data := await read(), bytes):
            while len(self._inbox) >= _READ_AHEAD:
                self._inbox_space.clear()
                await self._inbox_space.wait()
            if self._rate is not None:
                await self._rate.admit()
            self._inbox.append(self._parse(data))
            self._wake.set()
        self._client_finished = True
        self._wake.set()
        await asyncio.get_running_loop().create_future()  # the worker ends it all

    async def _work(self, write: Write) -> None:
        while True:
            # Requests before pushes: who asks is waiting, and a push may wait for a request.
            if self._inbox:
                request = self._inbox.pop(0)
                self._inbox_space.set()
                await self._answer(request, write)
                self._push_stuck = False
            elif self._client_finished:
                return
            elif self._push_is_due():
                await self._send_push(write)
            elif not self._state.has_pending() or not await self._send_answers((), write):
                self._wake.clear()
                next_due_at = self._state.next_due_at()
                if next_due_at is None:
                    await self._wake.wait()
                else:
                    await self._wait_until(next_due_at)

    async def _wait_until(self, next_due_at: float) -> None:
        """Until there is something to do, or it is time for what waits for the client."""
        async with in_background(self._wake_at(next_due_at), name=f"xds alarm {self.client.id}"):
            await self._wake.wait()

    async def _wake_at(self, at: float) -> None:
        await self._server.clock.sleep(at - self._server.clock.monotonic())
        self._push_stuck = False
        self._wake.set()
        await asyncio.get_running_loop().create_future()  # it rings once

    async def _answer(self, request: SotwRequest | DeltaRequest, write: Write) -> None:
        self._server.observer.received(self.client, request)
        type_url = request.type_url
        if type_url not in self._server.generators and not self._answers_unserved(type_url):
            return
        before = self._nack_of(type_url)
        received = self._state.receive(request)
        self._check_names(type_url)
        if received.refused is not None:
            self._server.metrics.rejected(short_name(type_url))
            self._log_refusal(type_url, before)
        if received.stale:
            self._server.metrics.expired_nonces.inc(short_name(type_url))
        if received.queries and self._must_catch_up(received.queries):
            self._state.defer(received.queries)
        elif received.queries or self._state.has_pending():
            await self._send_answers(received.queries, write)

    async def _send_answers(self, queries: tuple[Query, ...], write: Write) -> bool:
        """Answer these, and send what waited and is due; whether anything was sent."""
        answers = self._state.answers(queries, partial(self._generate, push=None))
        identifier = self._server.descriptions.of(None).identifier
        return await self._send(answers, write, identifier=identifier)

    def _check_names(self, type_url: str) -> None:
        """Raises `BadRequest`: a delta client may come to many names with few in each request."""
        subscription = self._state.subscriptions.get(type_url)
        most = self._server.config.max_subscribed_names
        if subscription is not None and len(subscription.names) > most:
            raise BadRequest(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"{len(subscription.names)} names of {type_url!r} on one stream, at most {most}"
                " (max_subscribed_names)",
            )

    def _answers_unserved(self, type_url: str) -> bool:
        """Note a request for a type that is not served; whether it is to be answered."""
        subscriptions = self._state.subscriptions
        if type_url in subscriptions:
            return True
        served = self._server.generators
        if sum(each not in served for each in subscriptions) >= MAX_UNSERVED:
            return False
        self._server.unserved.requested(type_url, client=self.client.id)
        return type_url not in self._server.config.reported_types

    def _must_catch_up(self, queries: tuple[Query, ...]) -> bool:
        """Whether an answer of now might refer to what the client is only about to be sent."""
        if all(self._state.can_answer(query) for query in queries):
            return False
        return self._server.is_behind(self, self._pushing is not None and not self._catching_up)

    def _nack_of(self, type_url: str) -> Nack | None:
        subscription = self._state.subscriptions.get(type_url)
        return None if subscription is None else subscription.nack

    def _log_refusal(self, type_url: str, before: Nack | None) -> None:
        """Say it when it begins, when the reason is another, and then ever more rarely."""
        nack = self._nack_of(type_url)
        if nack is None:
            return
        same = before is not None and (before.code, before.message) == (nack.code, nack.message)
        often = nack.count > _REFUSALS_TOLD
        if (same or often) and nack.count not in _REFUSALS_TOLD_AGAIN:
            return
        log.warning(
            "response refused by client",
            extra={
                "client": self.client.id,
                "type_url": type_url,
                "code": nack.code,
                "reason": nack.message,
                "times": nack.count,
            },
        )

    def _push_is_due(self) -> bool:
        """Whether there is a push to send, to go on with, or to bring forward for a request."""
        if self._pushing is not None:
            return not self._push_stuck
        return self._push is not None or self._state.has_deferred

    async def _send_push(self, write: Write) -> None:
        """Send a push, or go on with it; stuck, it goes on when the client says more."""
        metrics, monotonic = self._server.metrics, self._server.clock.monotonic
        if self._pushing is None:
            self._catching_up = self._push is None
            request = _CATCH_UP if self._push is None else self._push.request
            if self._push is not None:
                metrics.queue_time.observe(monotonic() - request.started)
            self._push_counts = None if self._catching_up else PushCounts()
            self._pushing = self._state.push(partial(self._generate, push=request))
        push = None if self._catching_up or self._push is None else self._push.request
        described = self._server.descriptions.of(push)
        await self._send(
            self._pushing, write, identifier=described.identifier, counts=self._push_counts
        )
        if self._push_stuck:
            # It waits for the client, not for the network: others may be written to meanwhile.
            if self._push is not None:
                self._push.permit.release()
        elif self._catching_up:
            self._pushing = None
            self._catching_up = False
        else:
            if self._push is not None:
                metrics.convergence_time.observe(monotonic() - self._push.request.started)
            if self._push_counts is not None:
                self._last_push = PushStatus(
                    reasons=described.reasons,
                    at=datetime.fromtimestamp(self._server.clock.now(), tz=UTC),
                    types=self._push_counts.types(self._state.subscriptions),
                )
            self._finish_push()

    async def _send(
        self,
        responses: Iterator[Response | None],
        write: Write,
        *,
        identifier: str,
        counts: PushCounts | None = None,
    ) -> bool:
        """Send responses until there are no more, or one has to wait; whether any was sent."""
        self._state.identifier = identifier
        metrics, monotonic = self._server.metrics, self._server.clock.monotonic
        any_sent = False
        started = monotonic()
        for response in responses:
            if response is None:
                self._push_stuck = True
                break
            made = monotonic()
            await self._write(response, write)
            sent = monotonic()
            short = short_name(response.type_url)
            metrics.push_time.labels(short).observe(sent - started)
            metrics.send_time.observe(sent - made)
            metrics.size.labels(short).observe(len(response.data))
            metrics.pushes.inc(short)
            if counts is not None:
                counts.add(response)
            self._server.observer.sent(self.client, response)
            self._log_sent(response)
            any_sent = True
            started = monotonic()
        return any_sent

    async def _write(self, response: Response, write: Write) -> None:
        self._check_size(response)
        pending_writes = self._server.pending_writes
        pending_writes.begin(self, len(response.data))
        self._writing = True
        try:
            await write(response.data)
        finally:
            self._writing = False
            self._was_slow = pending_writes.end(self) > self._server.config.slow_client_s

    def _check_size(self, response: Response) -> None:
        """Raises `StreamRefused`: gRPC would end the stream without a word of ours."""
        size, longest = len(response.data), self._server.config.max_message_bytes
        if size <= longest:
            return
        self._server.metrics.too_large.inc(short_name(response.type_url))
        log.error(
            "response over the message limit; its client is sent away and will be back",
            extra={
                **self.log_facts(),
                "type_url": response.type_url,
                "resources": len(response.resources),
                "bytes": size,
                "max_message_bytes": longest,
            },
        )
        raise StreamRefused(
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            f"the response of {response.type_url} has {size} bytes, at most {longest} can be sent"
            " (max_message_bytes of the server)",
        )

    def _finish_push(self) -> None:
        push, self._push, self._pushing = self._push, None, None
        self._push_counts = None
        if push is not None:
            push.permit.release()
            push.done()

    def _generate(self, query: Query, *, push: PushRequest | None) -> Generated | None:
        generator = self._server.generators.get(query.type_url)
        if generator is None:
            return nothing(query, delta=self._delta)
        try:
            # What a client asked for, even in the middle of a push, it is asked for as such.
            return generator.generate(self.client, query.watch, None if query.requested else push)
        except Exception:  # A generator's fault costs one type, not the stream.
            self._server.metrics.internal_errors.inc()
            log.exception(
                "generating resources failed; the client keeps what it has",
                extra={"client": self.client.id, "type_url": query.type_url},
            )
            return None

    def _log_sent(self, response: Response) -> None:
        if not log.isEnabledFor(logging.DEBUG):
            return
        log.debug(
            "response sent",
            extra={
                "client": self.client.id,
                "type_url": response.type_url,
                "nonce": response.nonce,
                "resources": len(response.resources),
                "removed": len(response.removed),
                "bytes": len(response.data),
            },
        )


_CATCH_UP = PushRequest(triggers=("request",), started=0.0)
"""Everything may have changed: what a client asks for waits for nothing that is gathered."""


def _request_rate(server: Dependencies[Any]) -> RateLimit | None:
    per_second = server.config.requests_per_second
    if per_second is None:
        return None
    return RateLimit(per_second, longest_wait_s=math.inf, clock=server.clock)


def check_request(
    request: SotwRequest | DeltaRequest, *, type_url: str | None, config: ServerConfig
) -> SotwRequest | DeltaRequest:
    """The request, with the type its service stands for. Raises `BadRequest`."""
    wanted = type_url or request.type_url
    if not wanted:
        raise BadRequest(
            grpc.StatusCode.INVALID_ARGUMENT,
            "type_url is empty; an aggregated stream needs it in every request",
        )
    if request.type_url and request.type_url != wanted:
        raise BadRequest(
            grpc.StatusCode.INVALID_ARGUMENT,
            f"type_url is {request.type_url!r}, but this service is for {wanted!r}",
        )
    names = request.names if isinstance(request, SotwRequest) else request.subscribe
    if len(names) > config.max_subscribed_names:
        raise BadRequest(
            grpc.StatusCode.INVALID_ARGUMENT,
            f"{len(names)} names of {wanted!r}, at most {config.max_subscribed_names}",
        )
    if request.error is not None:
        error = replace(request.error, message=shortened(request.error.message))
        request = replace(request, error=error)
    return request if request.type_url else replace(request, type_url=wanted)
