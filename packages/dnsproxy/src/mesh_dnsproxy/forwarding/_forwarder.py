"""Answers queries for names outside the mesh: from the cache, or from upstream resolvers.

A question is open once, for all clients that ask it. Questions and waiting queries are bounded:
beyond a bound, the oldest of the client that holds the most gives way, and is answered at once.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from mesh_dnsproxy._counts import ByType, Counts, Dropped
from mesh_dnsproxy.answering._answerer import Forward
from mesh_dnsproxy.forwarding._asking import Asking
from mesh_dnsproxy.forwarding._cache import CacheKey, ReplyCache, State, cache_key
from mesh_dnsproxy.forwarding._questions import Observe, Origin, Question, Waiter
from mesh_dnsproxy.forwarding._resolution import Outcome, Resolution, Transport
from mesh_dnsproxy.forwarding._resolv_conf import Upstream
from mesh_dnsproxy.forwarding._shares import Client, Shares
from mesh_dnsproxy.forwarding._upstreams import Routes
from mesh_dnsproxy.message._answer import error_answer
from mesh_dnsproxy.message._codes import SERVFAIL, TC
from mesh_lifecycle import Clock

log = logging.getLogger(__name__)


class ForwardConfig(NamedTuple):
    """How upstream resolvers are asked.

    timeout_s: after it the next server is asked too. total_timeout_s: the client gets an answer in
    this time, SERVFAIL without a reply; an application's resolver waits for longer (5 s). rounds:
    how often each server is asked. parallel: ask all at once, the first answer counts. coalesce:
    ask once when several clients have the same question; without it no cache is allowed.
    max_questions: that are open at a time, for the upstreams of resolv.conf, and for those of each
    suffix. max_waiting: queries that wait for them. Beyond, the oldest of the client that has the
    most is answered with SERVFAIL, or an expired reply. max_sockets: UDP sockets that are open at a
    time; beyond, questions share them. max_tcp_connections: to each server; beyond, an attempt
    gives way in the same manner.
    """

    timeout_s: float = 1.5
    total_timeout_s: float = 4.5
    rounds: int = 2
    parallel: bool = False
    coalesce: bool = True
    max_questions: int = 2000
    max_waiting: int = 10_000
    max_sockets: int = 128
    max_tcp_connections: int = 64


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
        self._questions: dict[object, Question] = {}
        self._open: dict[tuple[Upstream, ...], Shares[Question]] = {}
        """The open questions, by the servers that are responsible for the name."""
        self._waiting: Shares[Waiter] = Shares(config.max_waiting)
        self._asking = Asking(
            counts,
            max_sockets=config.max_sockets,
            max_tcp_connections=config.max_tcp_connections,
            on_outcome=self._finish,
        )
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
        self._asking.keep_only(servers)
        if self._cache is not None:
            self._cache.clear()

    def owns(self, host: str, port: int) -> bool:
        """Return whether a packet from this address is a question of this server that came back."""
        return self._asking.owns(host, port)

    @contextmanager
    def closing(self) -> Iterator[None]:
        """At the end, answer every waiting client with SERVFAIL and close all sockets."""
        try:
            yield
        finally:
            self._closed = True
            for question in list(self._questions.values()):
                self._finish(question, Outcome(None, answered=False, server=None))
            self._asking.close()

    async def wait_closed(self) -> None:
        """Wait for the connections to servers to end."""
        await self._asking.wait_closed()

    def resolve(
        self,
        forward: Forward,
        transport: Transport,
        reply: Callable[[bytes], None],
        observe: Observe | None = None,
        *,
        client: Client,
    ) -> Waiter | None:
        """Answer a query by one call of `reply`, now or later; returns what waits until then."""
        counts = self._counts
        query = forward.query
        waiter = Waiter(forward, reply, observe, client=client)
        cached_as = cache_key(query)
        found = None
        if cached_as is not None and self._cache is not None:
            found = self._cache.get(cached_as, self._clock.monotonic())
            if found is not None and found.state is not State.STALE:
                fresh = found.state is State.FRESH
                kind = ByType.CACHE_HITS if fresh else ByType.STALE
                counts.tally(kind, query.qtype)[0] += 1
                waiter.deliver(found.reply, Origin.CACHE if fresh else Origin.STALE)
                return None
        key: object = object()
        if cached_as is not None and self._config.coalesce:
            key = cached_as
        question = self._questions.get(key)
        if question is not None:
            counts.tally(ByType.COALESCED, query.qtype)[0] += 1
            self._wait(waiter, question)
            return waiter
        counts.tally(ByType.CACHE_MISSES, query.qtype)[0] += 1
        question = self._open_question(waiter, transport, key, cached_as)
        if found is not None:
            loop = asyncio.get_running_loop()
            question.stale_timer = loop.call_later(self._stale_after_s, self._serve_stale, question)
        self._asking.start(question)
        return waiter

    def withdraw(self, waiter: Waiter) -> None:
        """Give no answer to a client that has left; its question stays open for the cache."""
        if waiter.question is not None:
            waiter.question.waiters.pop(waiter, None)
            waiter.question = None
        self._waiting.discard(waiter)

    def _wait(self, waiter: Waiter, question: Question) -> None:
        question.waiters[waiter] = None
        waiter.question = question
        out = self._waiting.add(waiter, waiter.client)
        if out is not None:
            self._warn_of_overload()
            self.withdraw(out)
            self._answer_without_upstream(out, self._kept(cache_key(out.forward.query)))

    def _open_question(
        self, waiter: Waiter, transport: Transport, key: object, cached_as: CacheKey | None
    ) -> Question:
        query = waiter.forward.query
        now = asyncio.get_running_loop().time()
        responsible = self._routes.servers_for(query.name)
        resolution = Resolution(
            self._asking.health.order(responsible, now),
            transport,
            timeout_s=self._config.timeout_s,
            total_timeout_s=self._config.total_timeout_s,
            rounds=self._config.rounds,
            parallel=self._config.parallel,
        )
        question = Question(
            key, cached_as, query, resolution, client=waiter.client, started=now, share=responsible
        )
        self._questions[key] = question
        self._wait(waiter, question)
        shares = self._open.get(responsible)
        if shares is None:
            shares = self._open[responsible] = Shares(self._config.max_questions)
        out = shares.add(question, waiter.client)
        if out is not None:
            self._warn_of_overload()
            kept = self._kept(out.cached_as)
            for each in self._close(out):
                self._answer_without_upstream(each, kept)
        if responsible:
            self._counts.upstream_requests += 1
        return question

    def _warn_of_overload(self) -> None:
        self._counts.gave_way += 1
        if not self._overloaded:
            self._overloaded = True
            log.warning(
                "too many questions are open: the oldest of the client that has the most are"
                " answered with an error",
                extra={"questions": len(self._questions), "waiting": len(self._waiting)},
            )

    def _close(self, question: Question) -> list[Waiter]:
        """End a question; returns the queries that wait for it."""
        del self._questions[question.key]
        shares = self._open[question.share]
        shares.discard(question)
        if not shares:
            del self._open[question.share]
        question.release()
        if self._overloaded and not self._questions:
            self._overloaded = False
        return self._take_waiters(question)

    def _take_waiters(self, question: Question) -> list[Waiter]:
        waiters = list(question.waiters)
        for waiter in waiters:
            self.withdraw(waiter)
        return waiters

    def _finish(self, question: Question, outcome: Outcome) -> None:
        if question.ended:
            return
        waiters = self._close(question)
        if outcome.reply is not None:
            elapsed_s = asyncio.get_running_loop().time() - question.started
            self._counts.count_upstream(elapsed_s)
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
        self._cache.on_no_answer(question.cached_as, now)
        return self._kept(question.cached_as)

    def _kept(self, cached_as: CacheKey | None) -> bytes | None:
        """Return the reply of before, also an expired one."""
        if cached_as is None or self._cache is None:
            return None
        found = self._cache.get(cached_as, self._clock.monotonic())
        return None if found is None else found.reply

    def _serve_stale(self, question: Question) -> None:
        """Answer with an expired reply, as servers are slow; their answer is still kept."""
        question.stale_timer = None
        kept = self._kept(question.cached_as)
        if kept is None:
            return
        for waiter in self._take_waiters(question):
            self._answer_without_upstream(waiter, kept)

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
