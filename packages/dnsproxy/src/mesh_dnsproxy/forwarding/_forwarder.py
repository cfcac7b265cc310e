"""Puts questions to upstreams, once for all who ask the same, and always has an answer in time.

The rules are in `Resolution`, `Health` and `ReplyCache`; here are the sockets, the timers and who
waits for what.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from mesh_dnsproxy._counts import ByType, Counts, Dropped
from mesh_dnsproxy.answering._answerer import Forward
from mesh_dnsproxy.forwarding._cache import CacheKey, ReplyCache, State, cache_key
from mesh_dnsproxy.forwarding._resolution import Attempt, Outcome, Resolution, Transport
from mesh_dnsproxy.forwarding._tcp import NoReply, ask_over_tcp
from mesh_dnsproxy.forwarding._udp import Exchange, UdpUpstreams
from mesh_dnsproxy.forwarding._upstreams import Health, Routes
from mesh_dnsproxy.message._answer import error_answer, truncated_answer
from mesh_dnsproxy.message._codes import CD, NXDOMAIN, RCODE, SERVFAIL, TC
from mesh_dnsproxy.message._query import HEADER_BYTES, Query
from mesh_dnsproxy.message._reply import Verdict, cut
from mesh_lifecycle import Clock

log = logging.getLogger(__name__)


class ForwardConfig(NamedTuple):
    """How upstreams are asked.

    timeout_s: after that the next server is asked too. total_timeout_s: after that there is an
    answer, SERVFAIL if need be: less than an application's resolver waits (5 s). rounds: how often
    the list of servers is gone through. parallel: ask all at once, the first answer counts.
    coalesce: ask once when several ask the same. max_questions, max_waiting: questions that are
    open at a time, and queries that wait for them; beyond that the answer is SERVFAIL at once.
    max_sockets: UDP sockets open at a time; beyond that, questions share them.
    """

    timeout_s: float = 1.5
    total_timeout_s: float = 4.5
    rounds: int = 2
    parallel: bool = False
    coalesce: bool = True
    max_questions: int = 2000
    max_waiting: int = 10_000
    max_sockets: int = 128


class _Waiter(NamedTuple):
    forward: Forward
    reply: Callable[[bytes], None]


class _Question:
    """A question that is open, and who waits for its answer."""

    def __init__(
        self, key: object, cached_as: CacheKey | None, query: Query, resolution: Resolution
    ) -> None:
        self.key = key
        self.cached_as = cached_as
        self.query = query
        self.resolution = resolution
        self.waiters: list[_Waiter] = []
        self.exchanges: dict[int, Exchange | asyncio.Task[None]] = {}
        self.timer: asyncio.TimerHandle | None = None
        self.stale_timer: asyncio.TimerHandle | None = None
        self.started = 0.0

    def release(self) -> None:
        """Wait for nothing any more."""
        for timer in (self.timer, self.stale_timer):
            if timer is not None:
                timer.cancel()
        for exchange in self.exchanges.values():
            if isinstance(exchange, Exchange):
                exchange.close()
            else:
                exchange.cancel()
        self.exchanges.clear()


class Forwarder:
    """Answers what the mesh does not know, from upstreams and from what they said before."""

    def __init__(
        self,
        config: ForwardConfig,
        cache: ReplyCache | None,
        counts: Counts,
        clock: Clock,
        *,
        stale_after_s: float,
    ) -> None:
        self._config = config
        self._cache = cache
        self._counts = counts
        self._clock = clock
        self._stale_after_s = stale_after_s
        self._routes = Routes()
        self._health = Health()
        self._questions: dict[object, _Question] = {}
        self._waiting = 0
        self._udp = UdpUpstreams(counts, max_sockets=config.max_sockets)
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._overloaded = False

    @property
    def routes(self) -> Routes:
        """Whom is asked."""
        return self._routes

    def set_routes(self, routes: Routes) -> None:
        """Ask these from now on; what the others said is forgotten."""
        if routes == self._routes:
            return
        self._routes = routes
        servers = [*routes.default, *(s for each in routes.by_suffix.values() for s in each)]
        self._health.keep_only(servers)
        if self._cache is not None:
            self._cache.clear()

    def owns(self, host: str, port: int) -> bool:
        """Whether a packet from there is a question of ours, which came back to us."""
        return self._udp.owns(host, port)

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Answer what still waits with SERVFAIL in the end, and close everything."""
        try:
            yield
        finally:
            self._closed = True
            for question in list(self._questions.values()):
                self._finish(question, Outcome(None, answered=False, server=None))
            self._udp.close()

    async def wait_closed(self) -> None:
        """Wait for the connections to servers to end."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def resolve(
        self, forward: Forward, transport: Transport, reply: Callable[[bytes], None]
    ) -> None:
        """Answer, now or later, by one call of `reply`."""
        counts = self._counts
        query = forward.query
        waiter = _Waiter(forward, reply)
        cached_as = cache_key(query)
        found = None
        now = self._clock.monotonic()
        if cached_as is not None and self._cache is not None:
            found = self._cache.get(cached_as, now)
            if found is not None and found.state is not State.STALE:
                kind = ByType.CACHE_HITS if found.state is State.FRESH else ByType.STALE
                counts.tally(kind, query.qtype)[0] += 1
                _deliver(waiter, found.reply)
                return
        key: object = object()
        if cached_as is not None and self._config.coalesce:
            size = query.edns.udp_bytes if query.edns is not None else 0
            key = cached_as, transport, size
        question = self._questions.get(key)
        if self._waiting >= self._config.max_waiting or (
            question is None and len(self._questions) >= self._config.max_questions
        ):
            self._refuse(waiter, found.reply if found is not None else None)
            return
        self._waiting += 1
        if question is not None:
            counts.tally(ByType.COALESCED, query.qtype)[0] += 1
            question.waiters.append(waiter)
            return
        self._overloaded = False
        counts.tally(ByType.CACHE_MISSES, query.qtype)[0] += 1
        self._ask(waiter, transport, key, cached_as, stale=found is not None)

    def _refuse(self, waiter: _Waiter, stale: bytes | None) -> None:
        if not self._overloaded:
            self._overloaded = True
            log.warning(
                "too many questions are open: more are answered with an error",
                extra={"questions": len(self._questions), "waiting": self._waiting},
            )
        self._answer_without_upstream(waiter, stale)

    def _ask(
        self,
        waiter: _Waiter,
        transport: Transport,
        key: object,
        cached_as: CacheKey | None,
        *,
        stale: bool,
    ) -> None:
        loop = asyncio.get_running_loop()
        query = waiter.forward.query
        now = loop.time()
        servers = self._health.order(self._routes.servers_for(query.name), now)
        resolution = Resolution(
            servers,
            transport,
            timeout_s=self._config.timeout_s,
            total_timeout_s=self._config.total_timeout_s,
            rounds=self._config.rounds,
            parallel=self._config.parallel,
        )
        question = _Question(key, cached_as, query, resolution)
        question.waiters.append(waiter)
        question.started = now
        self._questions[key] = question
        if stale:
            question.stale_timer = loop.call_later(self._stale_after_s, self._serve_stale, question)
        if servers:
            self._counts.upstream_requests += 1
        self._send(question, resolution.start(now))
        self._go_on(question)

    def _send(self, question: _Question, attempts: tuple[Attempt, ...]) -> None:
        """Send what is to be sent; what can't be is told to the resolution, which may want more."""
        waiting = list(attempts)
        while waiting:
            attempt = waiting.pop(0)
            if attempt.transport is Transport.TCP:
                question.exchanges[attempt.number] = self._start_tcp(question, attempt)
                continue
            try:
                question.exchanges[attempt.number] = self._udp.ask(
                    attempt.server,
                    question.query.packet,
                    question.query.question,
                    on_reply=partial(self._replied, question, attempt),
                    on_error=partial(self._failed, question, attempt),
                )
            except OSError as error:
                log.debug(
                    "upstream can't be asked",
                    extra={"upstream": str(attempt.server), "error": str(error)},
                )
                now = asyncio.get_running_loop().time()
                self._health.failed(attempt.server, now)
                waiting += question.resolution.failed(attempt, now)

    def _start_tcp(self, question: _Question, attempt: Attempt) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(
            self._ask_over_tcp(question, attempt), name=f"DNS over TCP to {attempt.server}"
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _ask_over_tcp(self, question: _Question, attempt: Attempt) -> None:
        query = question.query
        try:
            verdict, reply = await ask_over_tcp(attempt.server, query.packet, query.question)
        except (OSError, NoReply) as error:
            log.debug(
                "upstream failed", extra={"upstream": str(attempt.server), "error": str(error)}
            )
            question.exchanges.pop(attempt.number, None)
            self._failed(question, attempt)
        else:
            question.exchanges.pop(attempt.number, None)
            self._replied(question, attempt, verdict, reply)

    def _replied(
        self, question: _Question, attempt: Attempt, verdict: Verdict, reply: bytes
    ) -> None:
        self._health.succeeded(attempt.server)
        self._step(question, partial(question.resolution.replied, attempt, verdict, reply))

    def _failed(self, question: _Question, attempt: Attempt) -> None:
        self._health.failed(attempt.server, asyncio.get_running_loop().time())
        self._step(question, partial(question.resolution.failed, attempt))

    def _time_passed(self, question: _Question) -> None:
        now = asyncio.get_running_loop().time()
        question.timer = None
        for server in question.resolution.silent:
            self._health.failed(server, now)
        self._step(question, question.resolution.time_passed)

    def _step(self, question: _Question, step: Callable[[float], tuple[Attempt, ...]]) -> None:
        """Let the resolution decide; a mistake of ours still ends in an answer."""
        try:
            self._send(question, step(asyncio.get_running_loop().time()))
            self._go_on(question)
        except Exception:
            self._counts.internal_errors += 1
            log.exception("question failed", extra={"packet": question.query.packet[:64].hex()})
            self._finish(question, Outcome(None, answered=False, server=None))

    def _go_on(self, question: _Question) -> None:
        """Finish when there is an outcome, else wait for the next moment."""
        if question.timer is not None:
            question.timer.cancel()
            question.timer = None
        outcome = question.resolution.outcome
        if outcome is not None:
            self._finish(question, outcome)
            return
        loop = asyncio.get_running_loop()
        question.timer = loop.call_at(question.resolution.due_at, self._time_passed, question)

    def _finish(self, question: _Question, outcome: Outcome) -> None:
        if self._questions.get(question.key) is not question:
            return
        del self._questions[question.key]
        question.release()
        if outcome.reply is not None:
            elapsed_s = asyncio.get_running_loop().time() - question.started
            self._counts.count_upstream(elapsed_s)
        waiters, question.waiters = question.waiters, []
        self._waiting -= len(waiters)
        kept = self._remember(question, outcome)
        cut_short = outcome.reply is not None and outcome.reply[2] & TC >> 8
        reply = outcome.reply
        if not outcome.answered and not cut_short:
            self._counts.upstream_failures += 1
            if kept is not None:
                reply = None
        for waiter in waiters:
            if reply is not None:
                _deliver(waiter, reply)
            else:
                self._answer_without_upstream(waiter, kept)

    def _remember(self, question: _Question, outcome: Outcome) -> bytes | None:
        """Keep a good answer; returns what was kept before when there is none."""
        if question.cached_as is None or self._cache is None or self._closed:
            return None
        now = self._clock.monotonic()
        if outcome.answered and outcome.reply is not None:
            self._cache.put(question.cached_as, outcome.reply, now)
            return None
        self._cache.not_refreshed(question.cached_as, now)
        found = self._cache.get(question.cached_as, now)
        return None if found is None else found.reply

    def _serve_stale(self, question: _Question) -> None:
        """Let nobody wait longer for servers that are slow; the answer is still waited for."""
        question.stale_timer = None
        if question.cached_as is None or self._cache is None:
            return
        found = self._cache.get(question.cached_as, self._clock.monotonic())
        if found is None:
            return
        waiters, question.waiters = question.waiters, []
        self._waiting -= len(waiters)
        for waiter in waiters:
            self._answer_without_upstream(waiter, found.reply)

    def _answer_without_upstream(self, waiter: _Waiter, stale: bytes | None) -> None:
        query = waiter.forward.query
        if stale is not None:
            self._counts.tally(ByType.STALE, query.qtype)[0] += 1
            _deliver(waiter, stale)
            return
        self._counts.count_error(SERVFAIL)
        waiter.reply(error_answer(query, SERVFAIL))

    def count_own_query(self) -> None:
        """Count a question of ours that came back."""
        if not self._counts.dropped[Dropped.OWN_QUERY]:
            log.error(
                "upstream leads back to this server: its questions are answered with an error"
            )
        self._counts.dropped[Dropped.OWN_QUERY] += 1


def _deliver(waiter: _Waiter, reply: bytes) -> None:
    """Give a reply to who waits, with the id and the letters of their question, at their size."""
    query, limit, known = waiter.forward
    if reply[4:6] == b"\0\0":
        waiter.reply(error_answer(query, reply[3] & RCODE))
        return
    end = HEADER_BYTES + len(query.question)
    flags = reply[2:4]
    if known and flags[1] & RCODE == NXDOMAIN and _unsigned(query):
        # The mesh has the name, for other types: to say that there is no such name would have
        # resolvers that keep this (RFC 8020) forget its addresses.
        flags = bytes((flags[0], flags[1] & ~RCODE & 0xFF))
    reply = b"".join((query.packet[:2], flags, reply[4:HEADER_BYTES], query.question, reply[end:]))
    try:
        waiter.reply(cut(reply, end, limit))
    except ValueError:
        waiter.reply(truncated_answer(query))


def _unsigned(query: Query) -> bool:
    """Whether nobody checks a proof of what is said."""
    return not query.flags & CD and (query.edns is None or not query.edns.dnssec_ok)
