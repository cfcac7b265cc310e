"""One stream of Envoy's: tasks that read its requests and write its responses until it ends.

Upstream streams come and go meanwhile; the session knows what each of them has to be told. Envoy's
requests are always read, and back-pressure to the control plane comes through HTTP/2 flow control.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Protocol

import grpc
import grpc.aio

from mesh_listening import accepted_peer, disconnect
from xds_proxy._errors import WireError
from xds_proxy.protocol._dialect import Dialect, Response
from xds_proxy.saved._stale_start import Feeding
from xds_proxy.session._held import WHOLE_STATE
from xds_proxy.session._outcomes import Answered, TooMuchError
from xds_proxy.session._session import Session
from xds_proxy.status._acks_and_nacks import DeliveryStatus
from xds_proxy.streams._ends import Cause, End, Side, UpstreamEnd, malformed
from xds_proxy.streams._learning import Learning, names_on_the_way
from xds_proxy.streams._quarantining import PartsOf, Quarantining, ToEnvoy
from xds_proxy.streams._rewriting import Rewrite, Rewriting
from xds_proxy.streams._surroundings import Surroundings
from xds_proxy.streams._upstream_stream import UpstreamStream
from xds_proxy.streams._writing import MessageWriter
from xds_proxy.upstream._call import ControlPlaneCall

log = logging.getLogger("xds_proxy")

_LISTENER = "type.googleapis.com/envoy.config.listener.v3.Listener"
_RESPONSES_AHEAD = 1
_MAX_DROPPED_TYPES = 100
_MAX_NAMES_LOGGED = 10
_FORWARDED = ("envoy.", "istio.workload.Workload")


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
        self._learning = Learning(self.session, self._learned)
        self._rewriting = Rewriting(
            around.rewriters,
            dialect=dialect,
            rewritten=self._rewritten,
            refused=self._rewrite_refused,
        )
        self._feeding = self._feeding_of(around, dialect)
        self._to_envoy = MessageWriter(around.bounds.to_envoys, self._envoy_overdue)
        self._responses: asyncio.Queue[ToEnvoy | PartsOf | End]
        self._responses = asyncio.Queue(maxsize=_RESPONSES_AHEAD)
        self._quarantining = self._quarantining_of(around)
        self._ahead: dict[int, ToEnvoy] = {}
        """The responses in the queue, and those that wait for room in it."""
        self._dropped_types: set[str] = set()
        self._told_refusals: dict[str, str] = {}
        """By type URL, why Envoy refused the newest response that it answered."""
        self._ended: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self.closed = asyncio.Event()

    @property
    def process(self) -> int | None:
        """The process id of the Envoy, from its socket's credentials; None if it is unknown."""
        known = accepted_peer(self._envoy.peer())
        return known.credentials.pid if known is not None and known.credentials else None

    @property
    def leading(self) -> bool:
        """Whether the relay's status is this stream's."""
        return self._leading

    def start_leading(self) -> None:
        """From now on, the relay's status is this stream's, and the agent's types come from it.

        Responses of these types that came while another stream led are answered now.
        """
        self._leading = True
        upstream = self._upstream
        if upstream is None or not upstream.has_answer or self._ended.done():
            self._around.reachability.no_answer_yet()
        else:
            self._around.reachability.answered()
        self._send_own()
        if upstream is not None:
            not_answered, upstream.not_answered = upstream.not_answered, {}
            for response, peeked in not_answered.values():
                try:
                    self._intercept(upstream, response, peeked)
                except WireError as error:
                    upstream.end_for_malformed(error)

    def stop_leading(self) -> None:
        """Another stream leads from now on."""
        self._leading = False

    def inject(self) -> None:
        """Send the agent's own requests that the upstream stream has not had, if this one leads.

        Before Envoy's first request for listeners they wait for it: no request of the agent's own
        goes before Envoy has said which node it is.
        """
        upstream = self._upstream
        if upstream is not None and self._leading and self.session.subscribed(_LISTENER):
            for request in self._around.injection.to_send(self._dialect, upstream.injected):
                upstream.send(request)

    def rewrite_again(self, type_url: str, name: str) -> None:
        """Have a resource rewritten once more, if a rewriter had changed it."""
        if self._around.rewriters:
            self._rewriting.again(type_url, name)

    def asks(self) -> tuple[Dialect, Callable[[bytes], None]] | None:
        """Return the dialect, and what sends a request of the agent's own; None if nothing does."""
        upstream = self._upstream
        if upstream is None or not upstream.has_answer:
            return None
        return self._dialect, upstream.send

    def end(self, end: End) -> None:
        """End the stream; of several ends the first one counts."""
        if not self._ended.done():
            self._ended.set_result(end)

    async def end_after_responses(self, end: End) -> None:
        """End the stream once Envoy has the responses that came before."""
        await self._responses.put(end)

    async def wait_end(self) -> End:
        """Wait for the end of the stream and return it."""
        return await asyncio.shield(self._ended)

    async def run(self) -> None:
        """Read requests, and do what responses need beside the stream; runs until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read_envoy(), name="xds-proxy: requests from Envoy")
            group.create_task(self._learning.run(), name="xds-proxy: large responses")
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
            await self._feeding.settled()
        await self._learning.settled()  # the new stream is told what Envoy has
        on_the_way = await names_on_the_way(self._dialect, self._on_the_way())
        subscriptions = self.session.upstream_opened(on_the_way)
        upstream = self._upstream = UpstreamStream(
            control_plane,
            dialect=self._dialect,
            generation=self.session.generation,
            bounds=self._around.bounds,
            receiver=self,
        )
        if self._feeding is not None:
            self._feeding.upstream_opened()
        try:
            for type_url, request in subscriptions:
                upstream.send(request)
                if type_url == _LISTENER:
                    self._send_own()
            end = await upstream.run()
        finally:
            self._upstream = None
            self.session.upstream_ended()
            if self._feeding is not None:
                self._feeding.upstream_ended()
        self._record_upstream_end(end)
        return end

    async def write_envoy(self) -> None:
        """Write responses until the stream has ended, and then until a pending one is taken.

        gRPC can't end a call while a response is pending: it would send the headers again. An Envoy
        that does not read loses its connection in time, and gRPC then cancels this coroutine.
        """
        while not self._ended.done():
            response = await self._responses.get()
            self._ahead.pop(id(response), None)
            if isinstance(response, End):
                self.end(response)
                return
            quarantining = self._quarantining
            if quarantining is not None and isinstance(response, PartsOf):
                while (part := await quarantining.next_part(response.type_url)) is not None:
                    await self._write_response(part)
            elif isinstance(response, PartsOf):
                pass
            elif quarantining is not None and quarantining.concerns(response):
                for each in await quarantining.before(response):
                    await self._write_response(each)
            else:
                await self._write_response(response)

    async def _write_response(self, response: ToEnvoy) -> None:
        if self._ended.done():
            return
        raw, peeked, generation, shown = response
        if self._feeding is not None and generation:
            self._feeding.sent(peeked.type_url)
        message = self.session.response(raw, peeked, generation=generation, shown=shown)
        newest = self.session.newest_sent(peeked.type_url)
        self._around.observation.response_arrived(self, peeked.type_url, newest)
        try:
            await self._to_envoy.write(self._envoy, message)
        except grpc.aio.InternalError:
            self.end(End(by=Side.ENVOY, code=grpc.StatusCode.CANCELLED))

    @property
    def is_writing(self) -> bool:
        """Whether a response to Envoy is pending."""
        return self._to_envoy.is_writing

    def forget(self) -> None:
        """The call is over, and its pending response with it."""
        self._to_envoy.forget()

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
                self.end(malformed("Envoy's request", error))
                return
            except TooMuchError as error:
                code = grpc.StatusCode.RESOURCE_EXHAUSTED
                self.end(End(by=Side.RELAY, code=code, details=str(error)))
                return
            counters.requests += 1
            for answered in requested.answered:
                self._answered(answered)
            if self._feeding is not None:
                self._feeding.requested(requested.type_url, names_versions=requested.names_versions)
            if requested.upstream is not None and self._upstream is not None:
                self._upstream.send(requested.upstream)
            if requested.type_url == _LISTENER:
                self._send_own()

    def _answered(self, answered: Answered) -> None:
        if answered.error is not None:
            self._around.counters.refused += 1
        self._around.observation.response_answered(self, answered.sent.type_url, answered.sent)
        if self._feeding is not None and not answered.sent.generation:
            self._feeding.answered()
        if self._quarantining is not None:
            self._quarantining.answered(answered)
        self._learning.add(answered)

    def _learned(self, answered: Answered, reasons: Mapping[str, str]) -> None:
        """The contents of an answered response are known. reasons: of the resources refused."""
        sent, accepted = answered.sent, self._around.accepted
        if self._quarantining is not None:
            self._quarantining.learned(answered, reasons)
        if answered.error is None:
            if sent.generation >= 0:  # a part is of a response that was refused
                self._told_refusals.pop(sent.type_url, None)
        else:
            # A control plane may answer each refusal with the same configuration, without a pause.
            again = self._told_refusals.get(sent.type_url) == answered.error
            self._told_refusals[sent.type_url] = answered.error
            names = sorted(reasons)
            log.log(
                logging.DEBUG if again else logging.WARNING,
                "Envoy refused a configuration and keeps the last good one",
                extra={
                    "type_url": sent.type_url,
                    "version": sent.version,
                    **({"resources": names[:_MAX_NAMES_LOGGED]} if names else {}),
                    "reason": answered.error,
                },
            )
            if sent.type_url not in WHOLE_STATE or not reasons:
                return
        if accepted is None or not self._leading or sent.response is None or not sent.generation:
            return
        try:
            accepted.accepted(
                node=self.session.node,
                dialect=self._dialect,
                type_url=sent.type_url,
                response=sent.response,
                keep=partial(self.session.worth_keeping, sent.type_url),
                whole=not self._dialect.resources_are_wrapped and sent.type_url in WHOLE_STATE,
                refused_names=frozenset(reasons),
            )
        except Exception:
            # The boundary to what keeps responses: Envoy's stream does not depend on it.
            log.exception("an accepted response could not be kept")

    # From the control plane

    def upstream_answered(self) -> None:
        """The first response has come on an upstream stream."""
        if self._feeding is not None:
            self._feeding.upstream_answered()
        if self._leading:
            self._around.reachability.answered()

    async def take(self, upstream: UpstreamStream, response: bytes, peeked: Response) -> None:
        """Take a response from an upstream stream. Raises WireError."""
        if self._feeding is not None and self._feeding.told_less:
            # This stream takes Envoy for one that has nothing: it would not say what is gone.
            upstream.begin_anew()
            return
        type_url, counters = peeked.type_url, self._around.counters
        counters.responses += 1
        if self._around.interception.intercepts(type_url):
            self._intercept(upstream, response, peeked)
        elif not is_for_envoy(type_url):
            # An answer to a report needs none; one to a question may come too late.
            if type_url not in self._around.injection and not self._around.debug.arrived(
                type_url, response
            ):
                counters.responses -= 1
                self._drop(peeked)
        elif self._rewriting.concerns(self.session.node, type_url):
            rewrite = Rewrite(response, peeked, generation=upstream.generation)
            await self._rewriting.add(self.session.node, rewrite)
        else:
            await self._pass_on(ToEnvoy(response, peeked, upstream.generation, response))

    async def _pass_on(self, response: ToEnvoy) -> None:
        self._ahead[id(response)] = response
        try:
            await self._responses.put(response)
        except asyncio.CancelledError:
            self._ahead.pop(id(response), None)
            raise

    def _on_the_way(self) -> list[tuple[str, bytes | None]]:
        """Return type and content of the responses that Envoy has not answered."""
        return [
            *((sent.type_url, sent.response) for sent in self.session.unanswered()),
            *((each.peeked.type_url, each.raw) for each in self._ahead.values()),
            *((each.peeked.type_url, each.raw) for each in self._rewriting.under_way()),
        ]

    def _record_upstream_end(self, end: UpstreamEnd) -> None:
        reachability, leading = self._around.reachability, self._leading
        reason = end.failure or end.details
        if end.cause is Cause.NOT_READING:
            reachability.not_reading(reason, leading=leading)
        elif end.cause is Cause.MALFORMED:
            reachability.malformed(reason, leading=leading)
        elif end.cause is Cause.BEYOND_LIMIT:
            reachability.beyond_limit(reason, leading=leading)
        elif end.failure is None or end.code is grpc.StatusCode.OK:
            reachability.ended(end.code, end.details, leading=leading)
        else:
            reachability.failed(end.failure, leading=leading)

    def _drop(self, peeked: Response) -> None:
        self._around.counters.dropped += 1
        type_url = peeked.type_url
        if type_url not in self._dropped_types and len(self._dropped_types) < _MAX_DROPPED_TYPES:
            self._dropped_types.add(type_url)
            log.error(
                "dropped a response of a type that Envoy does not know",
                extra={"type_url": type_url[:256], "nonce": peeked.nonce[:256]},
            )

    async def _rewritten(self, rewrite: Rewrite, shown: bytes) -> None:
        await self._pass_on(ToEnvoy(rewrite.raw, rewrite.peeked, rewrite.generation, shown))

    def _rewrite_refused(self, rewrite: Rewrite, reason: str) -> None:
        """Refuse a response in Envoy's place, which keeps what it has."""
        peeked = rewrite.peeked
        self._around.counters.refused += 1
        log.warning(
            "the agent refused a configuration and keeps the last good one",
            extra={"type_url": peeked.type_url, "version": peeked.version, "reason": reason},
        )
        if self._feeding is not None and not rewrite.generation:
            self._feeding.answered()
        nack = self.session.refusal(peeked, reason, generation=rewrite.generation)
        if nack is not None and self._upstream is not None:
            self._upstream.send(nack)

    # From saved configuration

    @property
    def stale(self) -> Feeding | None:
        """The saved configuration that Envoy got and that nothing has replaced; None without."""
        feeding = self._feeding
        return feeding if feeding is not None and feeding.types else None

    def _feeding_of(self, around: Surroundings, dialect: Dialect) -> Feeding | None:
        if around.stale_start is None:
            return None
        return Feeding(
            around.stale_start,
            dialect,
            node=lambda: self.session.node,
            subscription=self.session.asked_for,
            put=self._put_saved,
        )

    def _quarantining_of(self, around: Surroundings) -> Quarantining | None:
        if around.quarantine is None:
            return None
        return Quarantining(
            around.quarantine,
            self.session,
            saved=None if around.stale_start is None else around.stale_start.saved,
            rewriting=self._rewriting,
            counters=around.counters,
            now=around.now,
            leading=lambda: self._leading,
            put=self._responses.put,
            send=self._send_upstream,
        )

    def _send_upstream(self, request: bytes) -> None:
        if self._upstream is not None:
            self._upstream.send(request)

    async def _put_saved(self, type_url: str, response: bytes) -> None:
        peeked = self._dialect.read_response(response)
        if self._rewriting.concerns(self.session.node, type_url):
            await self._rewriting.add(self.session.node, Rewrite(response, peeked, generation=0))
        else:
            await self._pass_on(ToEnvoy(response, peeked, 0, response))

    # The agent's own types

    def _send_own(self) -> None:
        """Send the agent's own requests, right after Envoy's first request for listeners."""
        upstream = self._upstream
        if upstream is None or not self._leading or not self.session.subscribed(_LISTENER):
            return
        if not upstream.subscribed:
            upstream.subscribed = True
            for request in self._around.interception.subscriptions(self._dialect):
                upstream.send(request)
        self.inject()

    def _intercept(self, upstream: UpstreamStream, response: bytes, peeked: Response) -> None:
        """Give a response to its interceptor and answer it, now or when this stream leads."""
        if self._leading:
            upstream.send(self._around.interception.answer(self._dialect, response, peeked))
            self._save_own(response, peeked)
        else:
            upstream.not_answered[peeked.type_url] = response, peeked

    def _save_own(self, response: bytes, peeked: Response) -> None:
        stale_start = self._around.stale_start
        if stale_start is not None and self._around.interception.has_accepted(peeked):
            stale_start.saved.own_accepted(peeked.type_url, self._dialect, response)

    def _envoy_overdue(self, waited_s: float, size: int, reason: str) -> None:
        """End the connection; a status could not be sent behind the response that is not read."""
        self._around.counters.envoy_not_reading += 1
        log.warning(
            "Envoy's connection is ended, it does not read",
            extra={
                "pid": self.process,
                "waited_s": round(waited_s, 1),
                "bytes": size,
                "reason": reason,
            },
        )
        details = f"a response of {size} bytes was not read for {waited_s:.0f} s: {reason}"
        self.end(End(by=Side.RELAY, code=grpc.StatusCode.DEADLINE_EXCEEDED, details=details))
        disconnect(self._envoy.peer())


def is_for_envoy(type_url: str) -> bool:
    """Say whether responses of this type are relayed to Envoy."""
    return type_url.rpartition("/")[2].startswith(_FORWARDED)


class _Readable(Protocol):
    def read(self) -> Awaitable[object]: ...


async def _next(side: _Readable) -> bytes | None:
    """Return the next message, None at the end (gRPC then returns an object of its own)."""
    message = await side.read()
    return message if isinstance(message, bytes) else None
