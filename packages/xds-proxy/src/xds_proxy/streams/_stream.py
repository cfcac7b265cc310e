"""One stream of Envoy's: it reads requests, and takes responses from one upstream stream at a time.

Upstream streams come and go meanwhile; the session knows what each of them has to be sent. Envoy's
requests are always read, and back-pressure to the control plane comes through HTTP/2 flow control.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

import grpc
import grpc.aio

from mesh_listening import accepted_peer
from mesh_protowire import WireError
from xds_proxy.answers._answers import Answers
from xds_proxy.answers._learning import names_on_the_way
from xds_proxy.own_types._own_types import OwnTypes
from xds_proxy.protocol._dialect import Dialect, Response
from xds_proxy.quarantine._quarantining import Quarantining
from xds_proxy.quarantine._to_envoy import ToEnvoy
from xds_proxy.rewriting._rewriting import Rewrite, Rewriting
from xds_proxy.saved._stale_start import Feeding
from xds_proxy.session._outcomes import TooMuchError
from xds_proxy.session._session import Session
from xds_proxy.status._acks_and_nacks import DeliveryStatus
from xds_proxy.streams._ends import Cause, End, FirstEnd, Side, UpstreamEnd, malformed_end
from xds_proxy.streams._response_queue import ResponseQueue
from xds_proxy.streams._response_writing import ResponseWriting
from xds_proxy.streams._surroundings import Surroundings
from xds_proxy.streams._upstream_stream import UpstreamStream
from xds_proxy.upstream._call import ControlPlaneCall

log = logging.getLogger("xds_proxy")


class Stream:
    """One relayed stream; it runs until the first call of `end`, from whichever side.

    Of several streams at a time one leads (see `_leading_stream`).
    """

    def __init__(
        self,
        *,
        dialect: Dialect,
        envoy: grpc.aio.ServicerContext[bytes, bytes],
        known: DeliveryStatus,
        around: Surroundings,
    ) -> None:
        """known: the delivery status of the stream that led before."""
        self.session = Session(
            dialect,
            delivery_status=DeliveryStatus(known),
            now=around.now,
            max_subscription_bytes=around.bounds.max_queued_bytes,
            max_unanswered_bytes=around.bounds.max_message_bytes,
        )
        self._dialect = dialect
        self._envoy = envoy
        self._around = around
        self._leading = False
        self._upstream: UpstreamStream | None = None
        self._end = FirstEnd()
        self.closed = asyncio.Event()
        self._responses = ResponseQueue()
        saved = None if around.stale_start is None else around.stale_start.saved
        self._own = OwnTypes(
            self.session,
            interception=around.interception,
            injection=around.injection,
            debug=around.debug,
            saved=saved,
            counters=around.counters,
            leading=lambda: self._leading,
        )
        self._rewriting = Rewriting(
            around.rewriters,
            dialect=dialect,
            on_rewrite=self._on_rewrite,
            on_refusal=self._on_rewrite_refusal,
        )
        self._feeding: Feeding | None = None
        if around.stale_start is not None:
            self._feeding = Feeding(
                around.stale_start,
                dialect,
                node=lambda: self.session.node,
                subscription=self.session.asked_for,
                put=self._put_saved,
            )
        self._quarantining: Quarantining | None = None
        if around.quarantine is not None:
            self._quarantining = Quarantining(
                around.quarantine,
                self.session,
                saved=saved,
                rewriting=self._rewriting,
                counters=around.counters,
                now=around.now,
                leading=lambda: self._leading,
                put=self._responses.put_parts,
                send=self._send_upstream,
            )
        self._answers = Answers(
            self.session,
            counters=around.counters,
            observation=around.observation,
            feeding=self._feeding,
            quarantining=self._quarantining,
            accepted=around.accepted,
            leading=lambda: self._leading,
            refusals=around.refusals,
        )
        self.writing = ResponseWriting(
            envoy,
            self.session,
            responses=self._responses,
            end=self._end,
            process=lambda: self.process,
            feeding=self._feeding,
            quarantining=self._quarantining,
            observation=around.observation,
            counters=around.counters,
            bounds=around.bounds,
        )

    @property
    def process(self) -> int | None:
        """The process id of the Envoy, from its socket's credentials; None if it is unknown."""
        known = accepted_peer(self._envoy.peer())
        return known.credentials.pid if known is not None and known.credentials else None

    @property
    def leading(self) -> bool:
        """Whether the relay's status is this stream's."""
        return self._leading

    @property
    def stale(self) -> Feeding | None:
        """The saved configuration that Envoy got and that nothing has replaced; None without."""
        feeding = self._feeding
        return feeding if feeding is not None and feeding.types else None

    def start_leading(self) -> None:
        """From now on, the relay's status is this stream's, and the agent's types come from it.

        Responses of these types that came while another stream led are answered now.
        """
        self._leading = True
        upstream = self._upstream
        if upstream is None or not upstream.has_answer or self._end.has_come:
            self._around.reachability.no_answer_yet()
        else:
            self._around.reachability.on_answer()
        self._own.start_leading()

    def stop_leading(self) -> None:
        """Another stream leads from now on."""
        self._leading = False

    def inject(self) -> None:
        """Send the agent's own requests that the upstream stream has not had, if this one leads."""
        self._own.send()

    def rewrite_again(self, type_url: str, name: str) -> None:
        """Have a resource rewritten once more, if a rewriter had changed it."""
        if self._around.rewriters:
            self._rewriting.again(type_url, name)

    def asks(self) -> tuple[Dialect, Callable[[bytes], None]] | None:
        """Return the dialect, and what sends a request of the agent's own; None if nothing does."""
        return self._own.asks()

    def end(self, end: End) -> None:
        """End the stream; of several ends the first one counts."""
        self._end.put(end)

    async def end_after_responses(self, end: End) -> None:
        """End the stream once Envoy has the responses that came before."""
        await self._responses.put_end(end)

    async def wait_end(self) -> End:
        """Wait for the end of the stream and return it."""
        return await self._end.wait()

    async def run(self) -> None:
        """Read requests, and do what responses need beside the stream; runs until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read_envoy(), name="xds-proxy: requests from Envoy")
            group.create_task(self._answers.run(), name="xds-proxy: large responses")
            if self._feeding is not None:
                group.create_task(self._feeding.run(), name="xds-proxy: saved configuration")
            if self._quarantining is not None:
                group.create_task(self._quarantining.run(), name="xds-proxy: quarantine")
            if self._around.rewriters:
                group.create_task(
                    self._rewriting.run(lambda: self.session.node), name="xds-proxy: rewriters"
                )

    async def relay(self, control_plane: ControlPlaneCall) -> UpstreamEnd:
        """Relay messages to and from an upstream stream until that ends; returns how."""
        if self._feeding is not None:
            await self._feeding.wait_settled()
        await self._answers.wait_settled()  # the new stream is sent what Envoy has
        on_the_way = await names_on_the_way(self._dialect, self._on_the_way())
        subscriptions = self.session.on_upstream_open(on_the_way)
        upstream = self._upstream = UpstreamStream(
            control_plane,
            dialect=self._dialect,
            generation=self.session.generation,
            bounds=self._around.bounds,
            receiver=self,
        )
        self._own.on_upstream_open(upstream)
        if self._feeding is not None:
            self._feeding.on_upstream_open()
        try:
            for type_url, request in subscriptions:
                upstream.send(request)
                self._own.on_envoy_request(type_url)
            end = await upstream.run()
        finally:
            self._upstream = None
            self._own.on_upstream_end()
            self.session.on_upstream_end()
            if self._feeding is not None:
                self._feeding.on_upstream_end()
        self._record_upstream_end(end)
        return end

    # From Envoy

    async def _read_envoy(self) -> None:
        session, counters = self.session, self._around.counters
        while True:
            raw = await _next(self._envoy)
            if raw is None:
                self.end(End(by=Side.ENVOY, code=grpc.StatusCode.OK))
                return
            try:
                requested = session.request(raw)
            except WireError as error:
                self.end(malformed_end("Envoy's request", error))
                return
            except TooMuchError as error:
                code = grpc.StatusCode.RESOURCE_EXHAUSTED
                self.end(End(by=Side.RELAY, code=code, details=str(error)))
                return
            counters.requests += 1
            for answered in requested.answered:
                self._answers.on_answer(answered)
            if self._feeding is not None:
                self._feeding.on_request(
                    requested.type_url, names_versions=requested.names_versions
                )
            if requested.upstream is not None and self._upstream is not None:
                self._upstream.send(requested.upstream)
                self._own.on_envoy_request(requested.type_url)

    # From the control plane

    def on_upstream_answer(self) -> None:
        """The first response has come on an upstream stream."""
        if self._feeding is not None:
            self._feeding.on_upstream_answer()
        if self._leading:
            self._around.reachability.on_answer()

    async def take(self, upstream: UpstreamStream, response: bytes, peeked: Response) -> None:
        """Take a response from an upstream stream. Raises WireError."""
        if self._feeding is not None and self._feeding.upstream_lacks_saved:
            # This stream takes Envoy for one that has nothing: it would not say what is gone.
            upstream.begin_anew()
        elif self._own.concerns(peeked.type_url):
            self._own.take(response, peeked)
        else:
            self._around.counters.responses += 1
            await self._pass_on(response, peeked, upstream.generation)

    async def _pass_on(self, response: bytes, peeked: Response, generation: int) -> None:
        """Have Envoy get a response, through the rewriters if it concerns them."""
        if self._rewriting.concerns(self.session.node, peeked.type_url):
            rewrite = Rewrite(response, peeked, generation=generation)
            await self._rewriting.add(self.session.node, rewrite)
        else:
            await self._responses.put(ToEnvoy(response, peeked, generation, response))

    def _on_the_way(self) -> list[tuple[str, bytes | None]]:
        """Return type and content of the responses that Envoy has not answered."""
        return [
            *((sent.type_url, sent.response) for sent in self.session.unanswered()),
            *((each.peeked.type_url, each.raw) for each in self._responses),
            *((each.peeked.type_url, each.raw) for each in self._rewriting.under_way()),
        ]

    def _record_upstream_end(self, end: UpstreamEnd) -> None:
        reachability, leading = self._around.reachability, self._leading
        reason = end.failure or end.details
        if end.cause is Cause.NOT_READING:
            reachability.not_reading(reason, leading=leading)
        elif end.cause is Cause.MALFORMED:
            reachability.on_malformed(reason, leading=leading)
        elif end.cause is Cause.BEYOND_LIMIT:
            reachability.beyond_limit(reason, leading=leading)
        elif end.failure is None or end.code is grpc.StatusCode.OK:
            reachability.on_end(end.code, end.details, leading=leading)
        else:
            reachability.on_failure(end.failure, leading=leading)

    # From rewriters, quarantine and saved configuration

    async def _on_rewrite(self, rewrite: Rewrite, shown: bytes) -> None:
        response = ToEnvoy(rewrite.raw, rewrite.peeked, rewrite.generation, shown)
        await self._responses.put(response)

    def _on_rewrite_refusal(self, rewrite: Rewrite, reason: str) -> None:
        """Refuse a response in Envoy's place, which keeps what it has."""
        peeked = rewrite.peeked
        self._around.counters.refused += 1
        log.warning(
            "the agent refused a configuration and keeps the last good one",
            extra={"type_url": peeked.type_url, "version": peeked.version, "reason": reason},
        )
        if self._feeding is not None and not rewrite.generation:
            self._feeding.on_answer()
        nack = self.session.refusal(peeked, reason, generation=rewrite.generation)
        if nack is not None:
            self._send_upstream(nack)

    async def _put_saved(self, type_url: str, response: bytes) -> None:
        del type_url
        await self._pass_on(response, self._dialect.read_response(response), 0)

    def _send_upstream(self, request: bytes) -> None:
        if self._upstream is not None:
            self._upstream.send(request)


class _Readable(Protocol):
    def read(self) -> Awaitable[object]: ...


async def _next(side: _Readable) -> bytes | None:
    """Return the next message, None at the end (gRPC then returns an object of its own)."""
    message = await side.read()
    return message if isinstance(message, bytes) else None
