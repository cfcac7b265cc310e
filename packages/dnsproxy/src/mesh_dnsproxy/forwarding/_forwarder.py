"""Asks upstream resolvers, once for all clients with the same question, and answers in time.

`Resolution`, `Health` and `ReplyCache` decide; the sockets and timers are here, and the queries
that wait for each question.
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
from mesh_dnsproxy.forwarding._questions import Observe, Origin, Question, Waiter
from mesh_dnsproxy.forwarding._resolution import Attempt, Outcome, Resolution, Transport
from mesh_dnsproxy.forwarding._tcp import NoReply, ask_over_tcp
from mesh_dnsproxy.forwarding._udp import UdpUpstreams
from mesh_dnsproxy.forwarding._upstreams import Health, Routes
from mesh_dnsproxy.message._answer import error_answer
from mesh_dnsproxy.message._codes import SERVFAIL, TC
from mesh_dnsproxy.message._reply import Verdict
from mesh_lifecycle import Clock

log = logging.getLogger(__name__)


class ForwardConfig(NamedTuple):
    """How upstream resolvers are asked.

    timeout_s: after it the next server is asked too. total_timeout_s: the client gets an answer in
    this time, SERVFAIL without a reply; an application's resolver waits for longer (5 s). rounds:
    how often each server is asked. parallel: ask all at once, the first answer counts. coalesce:
    ask once when several clients have the same question. max_questions, max_waiting: questions
    that are open at a time, and queries that wait for them; beyond, the answer is SERVFAIL at once.
    max_sockets: UDP sockets that are open at a time; beyond, questions share them.
    """

    timeout_s: float = 1.5
    total_timeout_s: float = 4.5
    rounds: int = 2
    parallel: bool = False
    coalesce: bool = True
    max_questions: int = 2000
    max_waiting: int = 10_000
    max_sockets: int = 128


class Forwarder:
    """Answers queries for names outside the mesh, from upstream resolvers and the cache."""

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
        self._questions: dict[object, Question] = {}
        self._waiting = 0
        self._udp = UdpUpstreams(counts, max_sockets=config.max_sockets)
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._overloaded = False

    @property
    def routes(self) -> Routes:
        """The upstream resolvers in use."""
        return self._routes

    def set_routes(self, routes: Routes) -> None:
        """Ask these upstream resolvers from now on; drop the replies of others."""
        if routes == self._routes:
            return
        self._routes = routes
        servers = [*routes.default, *(s for each in routes.by_suffix.values() for s in each)]
        self._health.keep_only(servers)
        if self._cache is not None:
            self._cache.clear()

    def owns(self, host: str, port: int) -> bool:
        """Say whether a packet from this address is a question of this server that came back."""
        return self._udp.owns(host, port)

    @contextmanager
    def closing(self) -> Iterator[None]:
        """At the end, answer every waiting client with SERVFAIL and close all sockets."""
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
        self,
        forward: Forward,
        transport: Transport,
        reply: Callable[[bytes], None],
        observe: Observe | None = None,
    ) -> None:
        """Answer a query by one call of `reply`, now or later."""
        counts = self._counts
        query = forward.query
        waiter = Waiter(forward, reply, observe)
        cached_as = cache_key(query)
        found = None
        now = self._clock.monotonic()
        if cached_as is not None and self._cache is not None:
            found = self._cache.get(cached_as, now)
            if found is not None and found.state is not State.STALE:
                fresh = found.state is State.FRESH
                kind = ByType.CACHE_HITS if fresh else ByType.STALE
                counts.tally(kind, query.qtype)[0] += 1
                waiter.deliver(found.reply, Origin.CACHE if fresh else Origin.STALE)
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
        self._open_question(waiter, transport, key, cached_as, stale=found is not None)

    def _refuse(self, waiter: Waiter, stale: bytes | None) -> None:
        if not self._overloaded:
            self._overloaded = True
            log.warning(
                "too many questions are open: more are answered with an error",
                extra={"questions": len(self._questions), "waiting": self._waiting},
            )
        self._answer_without_upstream(waiter, stale)

    def _open_question(
        self,
        waiter: Waiter,
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
        question = Question(key, cached_as, query, resolution)
        question.waiters.append(waiter)
        question.started = now
        self._questions[key] = question
        if stale:
            question.stale_timer = loop.call_later(self._stale_after_s, self._serve_stale, question)
        if servers:
            self._counts.upstream_requests += 1
        self._send(question, resolution.start(now))
        self._finish_or_wait(question)

    def _send(self, question: Question, attempts: tuple[Attempt, ...]) -> None:
        """Send attempts; if one can't be sent, the resolution may return further ones."""
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

    def _start_tcp(self, question: Question, attempt: Attempt) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(
            self._ask_over_tcp(question, attempt), name=f"DNS over TCP to {attempt.server}"
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _ask_over_tcp(self, question: Question, attempt: Attempt) -> None:
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
        self, question: Question, attempt: Attempt, verdict: Verdict, reply: bytes
    ) -> None:
        self._health.succeeded(attempt.server)
        self._step(question, partial(question.resolution.replied, attempt, verdict, reply))

    def _failed(self, question: Question, attempt: Attempt) -> None:
        self._health.failed(attempt.server, asyncio.get_running_loop().time())
        self._step(question, partial(question.resolution.failed, attempt))

    def _time_passed(self, question: Question) -> None:
        now = asyncio.get_running_loop().time()
        question.timer = None
        for server in question.resolution.silent:
            self._health.failed(server, now)
        self._step(question, question.resolution.time_passed)

    def _step(self, question: Question, step: Callable[[float], tuple[Attempt, ...]]) -> None:
        """Let the resolution decide what is sent; after a bug of ours there still is an answer."""
        try:
            self._send(question, step(asyncio.get_running_loop().time()))
            self._finish_or_wait(question)
        except Exception:
            self._counts.internal_errors += 1
            log.exception("question failed", extra={"packet": question.query.packet[:64].hex()})
            self._finish(question, Outcome(None, answered=False, server=None))

    def _finish_or_wait(self, question: Question) -> None:
        """Finish if there is an outcome, else set the timer for the next attempt."""
        if question.timer is not None:
            question.timer.cancel()
            question.timer = None
        outcome = question.resolution.outcome
        if outcome is not None:
            self._finish(question, outcome)
            return
        loop = asyncio.get_running_loop()
        question.timer = loop.call_at(question.resolution.due_at, self._time_passed, question)

    def _finish(self, question: Question, outcome: Outcome) -> None:
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
                waiter.deliver(reply, Origin.UPSTREAM, outcome.server)
            else:
                self._answer_without_upstream(waiter, kept)

    def _remember(self, question: Question, outcome: Outcome) -> bytes | None:
        """Keep a good answer in the cache; without one, returns the reply of before, if any."""
        if question.cached_as is None or self._cache is None or self._closed:
            return None
        now = self._clock.monotonic()
        if outcome.answered and outcome.reply is not None:
            self._cache.put(question.cached_as, outcome.reply, now)
            return None
        self._cache.no_server_answered(question.cached_as, now)
        found = self._cache.get(question.cached_as, now)
        return None if found is None else found.reply

    def _serve_stale(self, question: Question) -> None:
        """Answer with an expired reply, as servers are slow; their answer is still kept."""
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

    def _answer_without_upstream(self, waiter: Waiter, stale: bytes | None) -> None:
        query = waiter.forward.query
        if stale is not None:
            self._counts.tally(ByType.STALE, query.qtype)[0] += 1
            waiter.deliver(stale, Origin.STALE)
            return
        if waiter.observe is not None:
            waiter.observe(Origin.NONE, None)
        self._counts.count_error(SERVFAIL)
        waiter.reply(error_answer(query, SERVFAIL))

    def count_own_query(self) -> None:
        """Count a question of this server that came back."""
        if not self._counts.dropped[Dropped.OWN_QUERY]:
            log.error(
                "upstream leads back to this server: its questions are answered with an error"
            )
        self._counts.dropped[Dropped.OWN_QUERY] += 1
