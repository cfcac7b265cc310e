"""One Envoy's side of the quarantine: what it refused, and what it gets in the place of that.

Two things are done about a refusal. A response with routes, endpoints or extensions that Envoy
refused as a whole goes to it once more in parts (`_refused_in_parts`). And when the control plane
sends a bad resource to an Envoy that has no older version of it, such as one that was started
since, that Envoy gets the last good one (`_last_good`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from mesh_protowire import WireError
from xds_proxy.protocol._resources import removed_of
from xds_proxy.protocol._shown import shorten
from xds_proxy.quarantine._given_parts import GivenParts, resources_in
from xds_proxy.quarantine._last_good import LastGood, LastGoodResources
from xds_proxy.quarantine._parts import GIVEN_BY_NAME
from xds_proxy.quarantine._quarantine import Quarantine, build_of
from xds_proxy.quarantine._refused_in_parts import RefusedInParts
from xds_proxy.quarantine._to_envoy import PartsOf, ToEnvoy
from xds_proxy.rewriting._rewriting import Rewriting
from xds_proxy.session._held import WHOLE_STATE
from xds_proxy.session._outcomes import Answered
from xds_proxy.session._session import Session
from xds_proxy.session._unanswered import Sent
from xds_proxy.status._counters import Counters

log = logging.getLogger("xds_proxy")


class Quarantining:
    """The quarantine as one stream of Envoy's meets it.

    leading: says whether the stream leads; what is saved is only that Envoy's. put: takes a place
    in the row of responses. send: takes a request to the control plane.
    """

    def __init__(
        self,
        quarantine: Quarantine,
        session: Session,
        *,
        saved: LastGoodResources | None,
        rewriting: Rewriting,
        counters: Counters,
        now: Callable[[], float],
        leading: Callable[[], bool],
        put: Callable[[PartsOf], Awaitable[None]],
        send: Callable[[bytes], None],
    ) -> None:
        self._quarantine = quarantine
        self._session = session
        self._given = GivenParts(session, rewriting)
        self._last_good = LastGood(
            quarantine,
            session,
            saved=saved,
            given=self._given,
            counters=counters,
            now=now,
            leading=leading,
            send=send,
        )
        self._in_parts = RefusedInParts(
            quarantine, session, given=self._given, last_good=self._last_good, now=now, put=put
        )
        self._work: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()

    # Called by the stream

    def on_answer(self, answered: Answered) -> None:
        """Envoy answered a response; called for each, in order."""
        sent = answered.sent
        error = None if answered.error is None else shorten(answered.error)
        type_url, response, in_parts = sent.type_url, sent.response, self._in_parts
        if sent.generation < 0:
            if (part := self._given.on_answer(sent.shown)) is not None:
                self._work.put_nowait(partial(in_parts.on_part_answer, type_url, part, error))
        elif not sent.generation or response is None:
            pass
        elif error is None:
            in_parts.on_ack(type_url)
        elif type_url in GIVEN_BY_NAME:
            parts = in_parts.add(sent)
            newer = [each for each in self._session.unanswered_of(type_url) if each.generation > 0]
            self._work.put_nowait(partial(in_parts.begin, sent, response, error, parts, newer))

    def on_contents(self, answered: Answered, reasons: Mapping[str, str]) -> None:
        """The content of an answered response is known. reasons: of the resources refused."""
        sent = answered.sent
        if sent.generation <= 0 or sent.response is None:
            return
        if answered.error is None:
            if sent.type_url in self._quarantine.types:
                self._work.put_nowait(partial(self._on_outcomes, sent, sent.response, {}))
        elif sent.type_url in WHOLE_STATE and reasons:
            self._work.put_nowait(partial(self._on_outcomes, sent, sent.response, reasons))

    async def run(self) -> None:
        """Do what answers give rise to, in their order; runs until it is cancelled."""
        while True:
            work = await self._work.get()
            try:
                await work()
            except WireError as error:
                # Envoy has decided over the response; what can't be read of it is left as it is.
                log.debug("a refused response can't be read", extra={"reason": str(error)})

    async def _on_outcomes(self, sent: Sent, response: bytes, reasons: Mapping[str, str]) -> None:
        """Envoy has taken each resource of a response by itself, but for these."""
        resources = await resources_in(self._session.dialect, response)
        for each in resources:
            if each.name in reasons:
                self._quarantine.on_refusal(
                    sent.type_url,
                    each.name,
                    each.body,
                    version=each.version or sent.version,
                    reason=reasons[each.name],
                    build=build_of(self._session.node),
                )
        good = {each.name: each.body for each in resources if each.name not in reasons}
        self._quarantine.on_acceptance(sent.type_url, good)

    # Writing to Envoy

    def concerns(self, response: ToEnvoy) -> bool:
        """Return whether `before` has to be asked about a response."""
        type_url = response.peeked.type_url
        return response.generation > 0 and (
            type_url in self._quarantine.types or self._in_parts.concerns(type_url)
        )

    async def before(self, response: ToEnvoy) -> tuple[ToEnvoy, ...]:
        """Return what Envoy gets in the place of a response that is about to be written."""
        try:
            return await self._before(response)
        except WireError:
            return (response,)  # Envoy decides over it

    async def next_part(self, type_url: str) -> ToEnvoy | None:
        """Return the next part that waits of a type, which is about to be written."""
        return await self._in_parts.next_part(type_url)

    async def _before(self, response: ToEnvoy) -> tuple[ToEnvoy, ...]:
        type_url, dialect = response.peeked.type_url, self._session.dialect
        resources = await resources_in(dialect, response.raw)
        bodies = {each.name: each.body for each in resources}
        removed = removed_of(dialect, response.raw)
        self._in_parts.renew(type_url, (*bodies, *removed))
        whole = type_url in WHOLE_STATE and not dialect.resources_are_wrapped
        self._quarantine.on_response(type_url, bodies, removed=removed, whole=whole)
        return await self._last_good.in_place_of(response, resources, removed)
