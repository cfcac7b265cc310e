"""One stream for as long as it lasts: requests answered and changes pushed, one at a time.

A reader takes requests in, a worker does everything else. They are two tasks, because a lone
loop over the requests would take the server's stop for the client's goodbye.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

import grpc

from ._clock import Clock
from ._config import ServerConfig
from ._errors import Refused, StreamRefused
from ._generator import Client, Generated, Generator
from ._metrics import Metrics
from ._push import PushRequest
from ._request import DeltaRequest, SotwRequest
from ._slots import Slot
from ._status import ClientStatus
from ._stream_state import StreamState
from ._subscription import Ask, Response
from ._type_urls import short_name

log = logging.getLogger(__name__)

C = TypeVar("C")

_READ_AHEAD = 8
"""Requests taken in before they are worked on; beyond that the client has to wait."""

Read = Callable[[], Awaitable[bytes | None]]
"""The next message of a client; None: it has no more to say."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """A push handed to a connection: what for, and what to call when it is over."""

    request: PushRequest
    slot: Slot
    done: Callable[[], None]


class Connection(Generic[C]):
    """One stream of an admitted client."""

    def __init__(
        self,
        client: Client[C],
        state: StreamState[Any],
        *,
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
        self._inbox: deque[SotwRequest | DeltaRequest] = deque()
        self._push: Push | None = None
        self._goodbye = False
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._alarm: asyncio.Task[None] | None = None

    def hand_over(self, push: Push) -> None:
        """Push this as soon as the requests at hand are answered."""
        self._push = push
        self._wake.set()

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
        )

    async def run(self, first: SotwRequest | DeltaRequest, read: Read, write: Write) -> None:
        """Serve the stream until the client says goodbye. Raises `Refused` for a bad one."""
        self._inbox.append(first)
        self._wake.set()
        refused: Refused | None = None
        try:
            async with asyncio.TaskGroup() as group:
                reader = group.create_task(self._read(read), name=f"xds reader {self.client.id}")
                try:
                    await self._work(write, group)
                finally:
                    reader.cancel()
                    if self._alarm is not None:
                        self._alarm.cancel()
        except* Refused as errors:
            refused = next(e for e in errors.exceptions if isinstance(e, Refused))
        finally:
            self._finish_push()
        if refused is not None:
            raise refused

    async def _read(self, read: Read) -> None:
        while (data := await read()) is not None:
            while len(self._inbox) >= _READ_AHEAD:
                self._room.clear()
                await self._room.wait()
            self._inbox.append(self._parse(data))
            self._wake.set()
        self._goodbye = True
        self._wake.set()

    async def _work(self, write: Write, group: asyncio.TaskGroup) -> None:
        while True:
            # Requests before pushes: who asks is waiting.
            if self._inbox:
                request = self._inbox.popleft()
                self._room.set()
                await self._answer(request, write)
            elif self._goodbye:
                return
            elif self._push is not None:
                await self._send_push(self._push, write)
            else:
                self._wake.clear()
                self._set_alarm(group)
                await self._wake.wait()
                continue
            await self._send(self._state.removals(), write)

    async def _answer(self, request: SotwRequest | DeltaRequest, write: Write) -> None:
        type_url = request.type_url
        if type_url not in self._server.generators:
            log.debug("type not served", extra={"client": self.client.id, "type_url": type_url})
            return
        received = self._state.receive(request)
        if received.refused is not None:
            self._server.metrics.rejected(short_name(type_url))
            log.warning(
                "response refused by client",
                extra={
                    "client": self.client.id,
                    "type_url": type_url,
                    "code": received.refused.code,
                    "reason": received.refused.message,
                },
            )
        if received.stale:
            self._server.metrics.expired_nonces.inc(short_name(type_url))
        source = partial(self._generate, push=None)
        await self._send(self._state.answers(received.asks, source), write)

    async def _send_push(self, push: Push, write: Write) -> None:
        self._server.metrics.queue_time.observe(
            self._server.clock.monotonic() - push.request.started
        )
        push.slot.release_after(self._server.config.slow_client_s)
        source = partial(self._generate, push=push.request)
        await self._send(self._state.push(source), write)
        self._server.metrics.convergence_time.observe(
            self._server.clock.monotonic() - push.request.started
        )
        self._finish_push()

    def _finish_push(self) -> None:
        push, self._push = self._push, None
        if push is not None:
            push.slot.release()
            push.done()

    def _generate(self, ask: Ask, *, push: PushRequest | None) -> Generated | None:
        generator = self._server.generators.get(ask.type_url)
        if generator is None:
            return None
        try:
            # What a client asked for, even in the middle of a push, it is asked for as such.
            return generator.generate(self.client, ask.watch, None if ask.asked else push)
        except Exception:  # A generator's fault costs one type, not the stream.
            self._server.metrics.internal_errors.inc()
            log.exception(
                "generating resources failed; the client keeps what it has",
                extra={"client": self.client.id, "type_url": ask.type_url},
            )
            return None

    async def _send(self, responses: Iterator[Response], write: Write) -> None:
        metrics, monotonic = self._server.metrics, self._server.clock.monotonic
        started = monotonic()
        for response in responses:
            made = monotonic()
            await write(response.data)
            sent = monotonic()
            short = short_name(response.type_url)
            metrics.push_time.labels(short).observe(sent - started)
            metrics.send_time.observe(sent - made)
            metrics.size.labels(short).observe(len(response.data))
            metrics.pushes.inc(short)
            self._log_sent(response)
            started = monotonic()

    def _log_sent(self, response: Response) -> None:
        log.debug(
            "response sent",
            extra={
                "client": self.client.id,
                "type_url": response.type_url,
                "nonce": response.nonce,
                "resources": response.resources,
                "removed": response.removed,
                "bytes": len(response.data),
            },
        )

    def _set_alarm(self, group: asyncio.TaskGroup) -> None:
        """Wake up in time for removals whose ACKs do not come."""
        due_at = self._state.removals_due_at()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if due_at is not None:
            self._alarm = group.create_task(self._ring(due_at), name=f"xds alarm {self.client.id}")

    async def _ring(self, at: float) -> None:
        await self._server.clock.sleep(at - self._server.clock.monotonic())
        self._wake.set()


def check_request(
    request: SotwRequest | DeltaRequest, *, type_url: str | None, config: ServerConfig
) -> SotwRequest | DeltaRequest:
    """The request, with the type its service stands for. Raises `StreamRefused`."""
    wanted = type_url or request.type_url
    if not wanted:
        raise StreamRefused(
            grpc.StatusCode.INVALID_ARGUMENT,
            "type_url is empty; an aggregated stream needs it in every request",
        )
    if request.type_url and request.type_url != wanted:
        raise StreamRefused(
            grpc.StatusCode.INVALID_ARGUMENT,
            f"type_url is {request.type_url!r}, but this service is for {wanted!r}",
        )
    names = request.names if isinstance(request, SotwRequest) else request.subscribe
    if len(names) > config.max_subscribed_names:
        raise StreamRefused(
            grpc.StatusCode.INVALID_ARGUMENT,
            f"{len(names)} names of {wanted!r}, at most {config.max_subscribed_names}",
        )
    return request if request.type_url else replace(request, type_url=wanted)
