"""Puts a question to upstream resolvers until there is an outcome: sockets and timers.

`Resolution` decides whom to ask and when; `Health` who is asked last.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from mesh_dnsproxy._counts import Counts
from mesh_dnsproxy.forwarding._questions import Question
from mesh_dnsproxy.forwarding._resolution import Attempt, Outcome, Transport
from mesh_dnsproxy.forwarding._resolv_conf import Upstream
from mesh_dnsproxy.forwarding._shares import Shares
from mesh_dnsproxy.forwarding._tcp import NoReply, ask_over_tcp
from mesh_dnsproxy.forwarding._udp import UdpUpstreams
from mesh_dnsproxy.forwarding._upstreams import Health
from mesh_dnsproxy.message._reply import Verdict

log = logging.getLogger(__name__)

_TcpAttempt = tuple[Question, Attempt]


class Asking:
    """Asks servers, and tells of each question's outcome once."""

    def __init__(
        self,
        counts: Counts,
        *,
        max_sockets: int,
        max_tcp_connections: int,
        on_outcome: Callable[[Question, Outcome], None],
    ) -> None:
        self._counts = counts
        self._on_outcome = on_outcome
        self._max_tcp_connections = max_tcp_connections
        self.health = Health()
        self._udp = UdpUpstreams(counts, max_sockets=max_sockets)
        self._over_tcp: dict[Upstream, Shares[_TcpAttempt]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def owns(self, host: str, port: int) -> bool:
        """Return whether a packet from this address is a question of this server that came back."""
        return self._udp.owns(host, port)

    def keep_only(self, servers: list[Upstream]) -> None:
        """Forget servers that are not asked any more."""
        self.health.keep_only(servers)
        for server in self._over_tcp.keys() - set(servers):
            if not self._over_tcp[server]:
                del self._over_tcp[server]

    def close(self) -> None:
        """Close all sockets over UDP; the questions were released before."""
        self._udp.close()

    async def wait_closed(self) -> None:
        """Wait for the connections to servers to end."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def start(self, question: Question) -> None:
        """Send the first attempts; the outcome may be there at once."""
        self._send(question, question.resolution.start(question.started))
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
                    question.packet,
                    question.query.question,
                    on_reply=partial(self._replied, question, attempt),
                    on_error=partial(self._on_failure, question, attempt),
                )
            except OSError as error:
                log.debug(
                    "upstream can't be asked",
                    extra={"upstream": str(attempt.server), "error": str(error)},
                )
                now = asyncio.get_running_loop().time()
                self.health.failed(attempt.server, now)
                waiting += question.resolution.failed(attempt, now)

    def _start_tcp(self, question: Question, attempt: Attempt) -> asyncio.Task[None]:
        """Ask over a connection; one of the client with the most to this server may give way."""
        loop = asyncio.get_running_loop()
        shares = self._over_tcp.get(attempt.server)
        if shares is None:
            shares = self._over_tcp[attempt.server] = Shares(self._max_tcp_connections)
        ours = question, attempt
        out = shares.add(ours, question.client)
        if out is not None:
            shares.discard(out)
            loop.call_soon(self._give_way, *out)
        task = loop.create_task(
            self._ask_over_tcp(question, attempt), name=f"DNS over TCP to {attempt.server}"
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: shares.discard(ours))
        return task

    def _give_way(self, question: Question, attempt: Attempt) -> None:
        task = question.exchanges.pop(attempt.number, None)
        if isinstance(task, asyncio.Task):
            task.cancel()
            self._counts.gave_way += 1
            self._step(question, partial(question.resolution.failed, attempt))

    async def _ask_over_tcp(self, question: Question, attempt: Attempt) -> None:
        try:
            verdict, reply = await ask_over_tcp(
                attempt.server, question.packet, question.query.question
            )
        except (OSError, NoReply) as error:
            log.debug(
                "upstream failed", extra={"upstream": str(attempt.server), "error": str(error)}
            )
            question.exchanges.pop(attempt.number, None)
            self._on_failure(question, attempt)
        else:
            question.exchanges.pop(attempt.number, None)
            self._replied(question, attempt, verdict, reply)

    def _replied(
        self, question: Question, attempt: Attempt, verdict: Verdict, reply: bytes
    ) -> None:
        self.health.succeeded(attempt.server)
        self._step(question, partial(question.resolution.replied, attempt, verdict, reply))

    def _on_failure(self, question: Question, attempt: Attempt) -> None:
        self.health.failed(attempt.server, asyncio.get_running_loop().time())
        self._step(question, partial(question.resolution.failed, attempt))

    def _on_time_passed(self, question: Question) -> None:
        now = asyncio.get_running_loop().time()
        question.timer = None
        for server in question.resolution.silent:
            self.health.failed(server, now)
        self._step(question, question.resolution.time_passed)

    def _step(self, question: Question, step: Callable[[float], tuple[Attempt, ...]]) -> None:
        """Let the resolution decide what is sent; after a bug of ours there still is an answer."""
        if question.ended:
            return
        try:
            self._send(question, step(asyncio.get_running_loop().time()))
            self._finish_or_wait(question)
        except Exception:
            self._counts.internal_errors += 1
            log.exception("question failed", extra={"packet": question.packet[:64].hex()})
            self._on_outcome(question, Outcome(None, answered=False, server=None))

    def _finish_or_wait(self, question: Question) -> None:
        """Tell the outcome if there is one, else set the timer for the next attempt."""
        if question.timer is not None:
            question.timer.cancel()
            question.timer = None
        outcome = question.resolution.outcome
        if outcome is not None:
            self._on_outcome(question, outcome)
            return
        loop = asyncio.get_running_loop()
        question.timer = loop.call_at(question.resolution.due_at, self._on_time_passed, question)
