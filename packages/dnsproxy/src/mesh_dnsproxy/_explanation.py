"""Explains a query to people: how it is answered, by which rule, and with what."""

import asyncio
from typing import NamedTuple

from mesh_dnsproxy.answering._answerer import Answerer, Forward
from mesh_dnsproxy.answering._explanation import Rule, decide, query_packet
from mesh_dnsproxy.forwarding._forwarder import Forwarder
from mesh_dnsproxy.forwarding._questions import Origin
from mesh_dnsproxy.forwarding._resolution import Transport
from mesh_dnsproxy.forwarding._resolv_conf import Upstream
from mesh_dnsproxy.forwarding._shares import OURSELVES
from mesh_dnsproxy.message._codes import type_name, type_number
from mesh_dnsproxy.message._shown import ShownRecord, shown_reply


class Explanation(NamedTuple):
    """How a query is answered.

    host, registry, namespace: of the entry in the name table, where one answers.
    wildcard, alias_of: the wildcard and the name that the one asked for led to, or None.
    origin: where the answer to a forwarded query comes from; None for one that is not forwarded.
    upstream: the resolver that answered. upstreams: those that are asked for this name.
    code: NOERROR, NXDOMAIN, SERVFAIL, ...
    """

    name: str
    type: str
    rule: Rule
    host: str | None
    registry: str
    namespace: str
    wildcard: str | None
    alias_of: str | None
    origin: Origin | None
    upstream: Upstream | None
    upstreams: tuple[Upstream, ...]
    code: str
    answers: tuple[ShownRecord, ...]


async def explain(
    answerer: Answerer, forwarder: Forwarder, name: str, record_type: str
) -> Explanation:
    """Return how a query is answered; raises ValueError for what can't be asked."""
    qtype = type_number(record_type)
    packet = query_packet(name, qtype)
    decision = decide(answerer, packet)
    origin: Origin | None = None
    server: Upstream | None = None
    upstreams: tuple[Upstream, ...] = ()
    if isinstance(decision.outcome, Forward):
        query = decision.outcome.query
        upstreams = forwarder.routes.servers_for(query.name)
        reply, origin, server = await _forwarded(forwarder, decision.outcome)
    else:
        reply = decision.outcome
    shown = shown_reply(reply)
    return Explanation(
        name=name,
        type=type_name(qtype),
        rule=decision.rule,
        host=decision.host,
        registry=decision.registry,
        namespace=decision.namespace,
        wildcard=decision.wildcard,
        alias_of=decision.alias_of,
        origin=origin,
        upstream=server,
        upstreams=upstreams,
        code=shown.code,
        answers=shown.answers,
    )


async def _forwarded(
    forwarder: Forwarder, forward: Forward
) -> tuple[bytes, Origin | None, Upstream | None]:
    """Return the answer of an upstream or of the cache; there always is one, in bounded time."""
    answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    seen: list[tuple[Origin, Upstream | None]] = []

    def reply(packet: bytes) -> None:
        if not answered.done():
            answered.set_result(packet)

    def observe(origin: Origin, server: Upstream | None) -> None:
        seen.append((origin, server))

    forwarder.resolve(forward, Transport.UDP, reply, observe, client=OURSELVES)
    packet = await answered
    origin, server = seen[-1] if seen else (None, None)
    return packet, origin, server
