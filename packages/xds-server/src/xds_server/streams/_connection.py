"""One stream for as long as it lasts: requests are answered and changes pushed, one at a time.

A reader receives requests, and a worker does everything else. They are two tasks, because a single
loop could not tell the stop of the server from the end of the client's requests.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Generic, TypeVar

import grpc

from mesh_lifecycle import in_background
from xds_server._errors import BadRequest, NotRead, Refused, StreamRefused
from xds_server._signal import Signal
from xds_server.monitoring._status import ClientStatus, Nack
from xds_server.protocol._names import NO_NAMES, shared_names
from xds_server.protocol._request import DeltaRequest, SotwRequest
from xds_server.protocol._resource import Resource
from xds_server.protocol._response import Response
from xds_server.protocol._type_urls import short_name
from xds_server.pushing._push import Push
from xds_server.pushing._push_request import PushRequest
from xds_server.sources._generated import Generated
from xds_server.sources._generator import Client
from xds_server.streams._dependencies import Dependencies, IsBehind
from xds_server.streams._inbox import Inbox, Parse, Read
from xds_server.streams._kept_bytes import KeptOfStream, size_of_node, size_of_versions
from xds_server.streams._limits import check_names, too_large_response
from xds_server.streams._questions import Question, Questions
from xds_server.streams._unserved import empty_answer
from xds_server.streams.logs._stream_log import log_not_read, log_response, log_too_large
from xds_server.streams.pushes._current_push import CurrentPush
from xds_server.streams.pushes._last_push import PushCounts
from xds_server.subscriptions._stream_state import StreamState
from xds_server.subscriptions._subscription import WILDCARD, Query

log = logging.getLogger(__name__)

C = TypeVar("C")

Write = Callable[[bytes], Awaitable[None]]
Taken = Callable[[], int]
"""Returns how many bytes the client has taken so far, whatever they were."""


class _NoMore:
    """Comes after the last of some answers."""


_NO_MORE = _NoMore()


class Connection(Generic[C]):
    """One stream of an admitted client."""

    __slots__ = (
        "_account",
        "_address",
        "_closed_because",
        "_connected_since",
        "_delta",
        "_holder",
        "_idle",
        "_inbox",
        "_is_behind",
        "_push",
        "_queries",
        "_questions",
        "_reported_versions",
        "_server",
        "_state",
        "_taken",
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
        is_behind: IsBehind[Connection[C]],
        parse: Parse,
        address: str,
        holder: str,
        delta: bool,
    ) -> None:
        self.client = client
        self._state = state
        self._server = server
        self._is_behind = is_behind
        self._address = address
        self._holder = holder
        self._delta = delta
        self._account: KeptOfStream | None = None
        self._reported_versions: tuple[str, ...] = ()
        self._taken: Taken | None = None
        self._connected_since = server.clock.now()
        self._push = CurrentPush()
        self._idle = False
        self._queries: tuple[Query, ...] = ()
        self._questions = Questions(server.answerers, nonce_prefix=state.nonce_prefix)
        self._writing = self._was_slow = False
        self._worker: asyncio.Task[object] | None = None
        self._closed_because: Refused | None = None
        self._wake = Signal()
        self._inbox = Inbox(
            first,
            parse=parse,
            requests_per_second=server.config.requests_per_second,
            clock=server.clock,
            wake=self._wake,
            work_share=server.work_share,
            holder=holder,
        )

    def open_account(self) -> None:
        """Count what the client makes the server keep, from its node and first request on.

        Raises `BadRequest` if that is too much.
        """
        account = self._account = self._server.kept.open_account(self._holder, self.give_way)
        try:
            account.keep("node", size_of_node(self.client.node))
            if (first := self._inbox.first) is not None:
                names = first.names if isinstance(first, SotwRequest) else first.subscribe
                account.watch(first.type_url, shared_names(names - {WILDCARD}))
        except BadRequest:
            account.release()
            raise

    def give_way(self, because: BadRequest) -> None:
        """End the stream, as its holder takes most of the memory there is for all."""
        self._server.on_refusal(because, self._holder, client=self.client.id)
        self._closed_because = because
        if self._worker is not None:
            self._worker.cancel()

    def start_push(self, push: Push) -> None:
        """Push as soon as the requests that came are answered."""
        self._push.give(push)
        self._wake.set()

    @property
    def reads_slowly(self) -> bool:
        """Whether a response waits for the client to read, or the last one waited for long."""
        return self._writing or self._was_slow

    def close_for_not_reading(self, *, waited_s: float, size: int, reason: str) -> None:
        """End the stream without sending the response that the client does not read."""
        self._server.metrics.send_timeouts.inc()
        log_not_read(waited_s=waited_s, size=size, reason=reason, client=self.log_facts())
        self._closed_because = NotRead(
            grpc.StatusCode.DEADLINE_EXCEEDED,
            f"a response of {size} bytes was not read for {waited_s:.0f} s: {reason}",
        )
        if self._worker is not None:
            self._worker.cancel()

    def watches(self, type_urls: AbstractSet[str]) -> bool:
        """Return whether the client wants any of these types."""
        return not type_urls.isdisjoint(self._state.subscriptions)

    @property
    def state(self) -> StreamState[Any]:
        """The subscriptions of the stream."""
        return self._state

    def log_facts(self) -> dict[str, object]:
        """Return the facts that log lines have of a client."""
        return {"client": self.client.id, "address": self._address, "delta": self._delta}

    def status(self) -> ClientStatus:
        """Return the status for operators."""
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
            last_push=None if self._push.last is None else self._push.last.status(),
            behind=self._state.has_deferred or self._is_behind(self, pushing=False),
        )

    def sent_resources(self) -> Mapping[str, tuple[Resource, ...]]:
        """Return the resources the client has, by type."""
        return {
            type_url: tuple(subscription.client_has.values())
            for type_url, subscription in self._state.subscriptions.items()
        }

    async def run(self, read: Read, write: Write, taken: Taken | None) -> None:
        """Serve the stream until the client ends it. Raises `Refused` where the server ends it."""
        self._taken = taken
        self._worker = asyncio.current_task()
        try:
            if self._closed_because is not None:
                raise self._closed_because
            # A TaskGroup would leave every stream that is cancelled to the garbage collector: until
            # Python 3.13 its frame and the error in it hold each other.
            async with in_background(
                self._inbox.receive(read, self._take_in_idle), name=f"xds reader {self.client.id}"
            ):
                await self._work(write)
        except asyncio.CancelledError:
            if self._closed_because is None or self._worker is None or self._worker.uncancel():
                raise
            raise self._closed_because from None
        except Refused:
            raise
        except Exception:  # A fault of the server or of an observer ends this stream only.
            self._server.metrics.internal_errors.inc()
            log.exception("stream failed", extra={"client": self.client.id})
            raise StreamRefused(grpc.StatusCode.INTERNAL, "internal error") from None
        finally:
            self._worker = None
            self._push.give_up()
            if self._account is not None:
                self._account.release()
                self._account = None  # They refer to each other.

    async def _work(self, write: Write) -> None:
        while True:
            # Requests before pushes: their clients wait, and a push may wait for a request.
            if (question := self._questions.pop()) is not None:
                await self._send_answer(question, write)
            elif self._queries:
                queries, self._queries = self._queries, ()
                await self._send_answers(queries, write)
            elif (request := self._inbox.pop()) is not None:
                asked = self._take_in(request)
                if asked is not None and (asked or self._state.has_pending()):
                    await self._send_answers(asked, write)
                self._push.is_stuck = False
            elif self._inbox.ended:
                self._inbox.finish()
                return
            elif self._push_is_due():
                await self._send_push(write)
            elif not self._state.has_pending() or not await self._send_answers((), write):
                self._wake.clear()
                next_due_at = self._state.next_due_at()
                self._idle = True
                if next_due_at is None:
                    await self._wake.wait()
                else:
                    await self._wait_until(next_due_at)
                self._idle = False

    async def _wait_until(self, next_due_at: float) -> None:
        """Wait for something to do, or for the time at which a push goes on without the client."""
        async with in_background(self._wake_at(next_due_at), name=f"xds alarm {self.client.id}"):
            await self._wake.wait()

    async def _wake_at(self, at: float) -> None:
        await self._server.clock.sleep(at - self._server.clock.monotonic())
        self._push.is_stuck = False
        self._wake.set()
        await asyncio.get_running_loop().create_future()  # It wakes the worker once.

    def _take_in_idle(self, request: SotwRequest | DeltaRequest) -> bool:
        """Take in a request if the worker waits, and wake it if there is anything to do now.

        Between two steps of the worker it is left to it: the state must not change meanwhile.
        """
        if not self._idle or self._wake.is_set():
            return False
        self._queries = self._take_in(request) or ()
        self._push.is_stuck = False
        asked = bool(self._queries) or self._questions.waiting is not None
        if asked or self._push_is_due() or self._state.is_waiting():
            self._wake.set()
        return True

    def _take_in(self, request: SotwRequest | DeltaRequest) -> tuple[Query, ...] | None:
        """Take in a request; return the queries to answer now, None if no answer may be sent."""
        self._server.observer.on_request(self.client, request)
        if self._questions.take(request):
            return None
        type_url = request.type_url
        subscribed, unserved = self._state.subscriptions, self._server.unserved
        if not unserved.may_answer(type_url, subscribed=subscribed, client=self.client.id):
            return None
        before = self._nack_of(type_url)
        self._count_versions(request)
        received = self._state.receive(request)
        subscription = subscribed.get(type_url)
        check_names(subscription, config=self._server.config)
        if self._account is not None:
            names = NO_NAMES if subscription is None else subscription.names
            self._account.watch(type_url, names)
        if received.refused is not None:
            self._server.metrics.on_nack(short_name(type_url))
            self._server.refusals.on_nack(
                self._nack_of(type_url),
                node=self.client.node.id,
                client=self.client.id,
                type_url=type_url,
            )
        elif before is not None and self._nack_of(type_url) is None:
            self._server.refusals.on_ack(node=self.client.node.id, type_url=type_url)
        if received.stale:
            self._server.metrics.expired_nonces.inc(short_name(type_url))
        if received.queries and self._must_catch_up(received.queries):
            self._state.defer(received.queries)
            return None
        return received.queries

    def _count_versions(self, request: SotwRequest | DeltaRequest) -> None:
        """Count the resources that a client says it has. Raises `BadRequest` if they are many."""
        if not isinstance(request, DeltaRequest) or not request.initial_versions:
            return
        type_url = request.type_url
        if self._account is not None and type_url not in self._state.subscriptions:
            size = size_of_versions(request.initial_versions)
            self._account.keep(f"versions {type_url}", size)
            self._reported_versions += (type_url,)

    def _settle_versions(self) -> None:
        """Stop counting the reported versions whose resources the client has been sent since."""
        if self._account is None:
            return
        left = []
        for type_url in self._reported_versions:
            has = self._state.subscriptions[type_url].client_has
            if any(not each.body for each in has.values()):
                left.append(type_url)
            else:
                self._account.keep(f"versions {type_url}", 0)
        self._reported_versions = tuple(left)

    async def _send_answers(self, queries: tuple[Query, ...], write: Write) -> bool:
        """Answer queries, and send responses that are due; return whether any was sent."""
        answers = self._state.answers(queries, partial(self._generate, push=None))
        identifier = self._server.descriptions.describe(None).identifier
        any_sent = await self._send(answers, write, identifier=identifier)
        if self._reported_versions:
            self._settle_versions()
        return any_sent

    async def _send_answer(self, question: Question, write: Write) -> None:
        """Answer a question, whose answerer may refuse it: then the stream ends."""
        began = time.monotonic()
        resources = self._server.answerers[question.type_url].answer(self.client, question.names)
        self._state.identifier = self._server.descriptions.describe(None).identifier
        response = self._state.answer_once(question.type_url, resources)
        self._server.work_share.count_work(self._holder, time.monotonic() - began)
        await self._write(response, write)
        log_response(response, client=self.client.id)

    def _must_catch_up(self, queries: tuple[Query, ...]) -> bool:
        """Return whether answers generated now might refer to resources the client lacks yet."""
        if all(self._state.can_answer(query) for query in queries):
            return False
        return self._is_behind(self, pushing=self._push.has_begun_given)

    def _nack_of(self, type_url: str) -> Nack | None:
        subscription = self._state.subscriptions.get(type_url)
        return None if subscription is None else subscription.nack

    def _push_is_due(self) -> bool:
        return self._push.is_due(has_deferred=self._state.has_deferred)

    async def _send_push(self, write: Write) -> None:
        """Send a push, or go on with it; a stuck push goes on at the client's next request."""
        push, state, clock = self._push, self._state, self._server.clock
        if push.responses is None:
            began = push.begin()
            if push.request is not None:
                self._server.metrics.queue_time.observe(clock.monotonic() - began.started)
            push.responses = state.push(partial(self._generate, push=began))
        request = push.request
        described = self._server.descriptions.describe(request)
        await self._send(push.responses, write, identifier=described.identifier, counts=push.counts)
        if push.is_stuck:
            push.let_others_begin()
            return
        if request is not None:
            self._server.metrics.convergence_time.observe(clock.monotonic() - request.started)
        push.end(state.subscriptions, reasons=described.reasons, at=clock.now())

    async def _send(
        self,
        responses: Iterator[Response | None],
        write: Write,
        *,
        identifier: str,
        counts: PushCounts | None = None,
    ) -> bool:
        """Send responses until they end or one has to wait; return whether any was sent."""
        self._state.identifier = identifier
        metrics, monotonic = self._server.metrics, self._server.clock.monotonic
        any_sent = False
        started = monotonic()
        for response in self._time_answers(responses) if counts is None else responses:
            if response is None:
                self._push.is_stuck = True
                break
            took_s = await self._write(response, write)
            sent = monotonic()
            metrics.on_response(
                short_name(response.type_url),
                size=response.size,
                push_s=sent - started,
                send_s=took_s,
            )
            if counts is not None:
                counts.add(response)
            self._server.observer.on_response(self.client, response)
            log_response(response, client=self.client.id)
            any_sent = True
            started = sent
        return any_sent

    def _time_answers(self, answers: Iterator[Response | None]) -> Iterator[Response | None]:
        """Count the time that answers take to make as their holder's."""
        while True:
            began = time.monotonic()
            answer = next(answers, _NO_MORE)
            self._server.work_share.count_work(self._holder, time.monotonic() - began)
            if isinstance(answer, _NoMore):
                return
            yield answer

    async def _write(self, response: Response, write: Write) -> float:
        """Write a response, and return the seconds it took the client to read it."""
        config, room = self._server.config, self._server.write_room
        if response.size > config.max_message_bytes:
            self._refuse_response(response)
        if room.must_wait(response.size, self._holder):
            await room.wait(self._holder, self._address)
        room.begin(self, response.size, self._taken, self._holder)
        self._writing = True
        took_s = 0.0
        try:
            await write(response.data)
        finally:
            self._writing = False
            took_s = room.end(self)
            self._was_slow = took_s > config.slow_client_s
        return took_s

    def _refuse_response(self, response: Response) -> None:
        """Raise `StreamRefused`, as gRPC would end the stream without telling the reason."""
        most = self._server.config.max_message_bytes
        self._server.metrics.too_large.inc(short_name(response.type_url))
        log_too_large(response, max_message_bytes=most, client=self.log_facts())
        raise too_large_response(response, config=self._server.config)

    def _generate(self, query: Query, *, push: PushRequest | None) -> Generated | None:
        generator = self._server.generators.get(query.type_url)
        if generator is None:
            return empty_answer(query, delta=self._delta)
        try:
            # A request of the client is one for its generator also in the middle of a push.
            return generator.generate(self.client, query.watch, None if query.requested else push)
        except Exception:  # A generator's fault costs one type, not the stream.
            self._server.metrics.internal_errors.inc()
            log.exception(
                "generating resources failed; the client keeps what it has",
                extra={"client": self.client.id, "type_url": query.type_url},
            )
            return None
