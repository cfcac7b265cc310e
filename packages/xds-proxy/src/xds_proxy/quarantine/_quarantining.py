"""One Envoy's side of the quarantine: what it refused, and what it gets in the place of that.

Two things are done about a refusal. A response with routes, endpoints or extensions that Envoy
refused as a whole goes to it once more in parts, so that all but the bad resources are in force,
and it is known which these are. And when the control plane sends a bad resource to an Envoy that
has no older version of it, such as one that was started since, that Envoy gets the last good one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple, Protocol

from xds_proxy._errors import RewriteRefused, WireError
from xds_proxy.protocol._dialect import Response
from xds_proxy.protocol._resources import Resource, names_of, removed_of, resources_of
from xds_proxy.quarantine._parts import (
    GIVEN_BY_NAME,
    Group,
    Parts,
    digest_of,
    with_last_good,
    write_part,
)
from xds_proxy.quarantine._quarantine import Quarantine, build_of, joined
from xds_proxy.quarantine._to_envoy import PartsOf, ToEnvoy
from xds_proxy.rewriting._rewriting import Rewriting
from xds_proxy.saved._stale_response import marked
from xds_proxy.session._held import WHOLE_STATE
from xds_proxy.session._outcomes import Answered
from xds_proxy.session._session import Session
from xds_proxy.session._unanswered import Sent
from xds_proxy.status._counters import Counters

log = logging.getLogger("xds_proxy")

_SMALL_BYTES = 64 * 1024
_REWRITE_S = 5.0
_SHOWN = 10


class _Withheld(NamedTuple):
    """A response that Envoy does not get, and the resources in it that are bad."""

    response: ToEnvoy
    reasons: Mapping[str, str]
    versions: Mapping[str, str]


class _Done(NamedTuple):
    """A refused response of which Envoy has all that is good."""

    digest: bytes
    found: Mapping[str, str]
    versions: Mapping[str, str]


class _InFlight(NamedTuple):
    """A part that Envoy has not answered. withheld: is refused upstream after it."""

    group: Group
    parts: Parts | None
    withheld: _Withheld | None = None


class LastGoodResources(Protocol):
    """Knows what Envoy accepted last."""

    async def newest(self, type_url: str, node: bytes) -> Mapping[str, Resource]:
        """Return the resources of a type by name. node: Envoy's."""


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
        self._saved = saved
        self._rewriting = rewriting
        self._counters = counters
        self._now = now
        self._leading = leading
        self._put = put
        self._send = send
        self._work: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()
        self._parts: dict[str, list[Parts]] = {}
        self._done: dict[str, _Done] = {}
        self._in_flight: dict[str, _InFlight] = {}
        self._nonces = 0

    # Told by the stream

    def answered(self, answered: Answered) -> None:
        """Envoy answered a response; called for each, in order."""
        sent, error = answered.sent, answered.error
        type_url, response = sent.type_url, sent.response
        if sent.generation < 0:
            if (found := self._in_flight.pop(sent.shown, None)) is not None:
                self._work.put_nowait(partial(self._part_answered, type_url, found, error))
        elif not sent.generation or response is None:
            pass
        elif error is None:
            self._done.pop(type_url, None)
        elif type_url in GIVEN_BY_NAME:
            parts = Parts(version=sent.version, generation=sent.generation)
            self._parts.setdefault(type_url, []).append(parts)
            newer = [each for each in self._session.unanswered_of(type_url) if each.generation > 0]
            self._work.put_nowait(partial(self._begin, sent, response, error, parts, newer))

    def learned(self, answered: Answered, reasons: Mapping[str, str]) -> None:
        """The content of an answered response is known. reasons: of the resources refused."""
        sent = answered.sent
        if sent.generation <= 0 or sent.response is None:
            return
        if answered.error is None:
            if sent.type_url in self._quarantine.types:
                self._work.put_nowait(partial(self._judged, sent, sent.response, {}))
        elif sent.type_url in WHOLE_STATE and reasons:
            self._work.put_nowait(partial(self._judged, sent, sent.response, reasons))

    async def run(self) -> None:
        """Do what answers give rise to, in their order; runs until it is cancelled."""
        while True:
            work = await self._work.get()
            try:
                await work()
            except WireError as error:
                # Envoy has judged the response; what can't be read of it is left as it is.
                log.debug("a refused response can't be read", extra={"reason": str(error)})

    # Writing to Envoy

    def concerns(self, response: ToEnvoy) -> bool:
        """Say whether `before` has to be asked about a response."""
        type_url = response.peeked.type_url
        return response.generation > 0 and (
            type_url in self._quarantine.types or type_url in self._parts
        )

    async def before(self, response: ToEnvoy) -> tuple[ToEnvoy, ...]:
        """Return what Envoy gets in the place of a response that is about to be written."""
        try:
            return await self._before(response)
        except WireError:
            return (response,)  # Envoy judges it

    async def next_part(self, type_url: str) -> ToEnvoy | None:
        """Return the next part that waits of a type, which is about to be written."""
        for parts in tuple(self._parts.get(type_url, ())):
            while (group := parts.next()) is not None:
                part = await self._part(
                    type_url, parts.version, group, parts.generation, parts=parts, withheld=None
                )
                if part is not None:
                    return part
                parts.accepted()
        return None

    # Refusals

    async def _begin(
        self, sent: Sent, response: bytes, error: str, parts: Parts, newer: Iterable[Sent]
    ) -> None:
        """A response was refused as a whole: begin to give it in parts."""
        type_url = sent.type_url
        for each in newer:
            if each.response is not None:
                parts.renew(await self._names(each.response))
        resources = await self._resources(response)
        done = self._done.get(type_url)
        if done is not None and done.digest == digest_of(resources):
            parts.begin(())
            self._tell(type_url, done.found, done.versions)
            self._end(type_url, parts, done)
        elif len(resources) == 1 or not all(each.name for each in resources):
            parts.begin(())
            if len(resources) == 1 and (bad := resources[0]).name:
                await self._bad(type_url, parts, bad, error)
            self._end(type_url, parts, None)
        else:
            bodies = {each.name: each.body for each in resources}
            known = self._quarantine.among(type_url, bodies, self._build)
            parts.begin(resources, known)
        if type_url in self._parts:
            await self._put(PartsOf(type_url))

    async def _part_answered(self, type_url: str, found: _InFlight, error: str | None) -> None:
        group, parts, withheld = found
        if withheld is not None:
            self._refuse_withheld(withheld)
        if error is None and not group.is_last_good:
            self._quarantine.accepted(type_url, group.bodies)
        if parts is None:
            return
        if error is None:
            parts.accepted()
        elif (bad := parts.refused(group, error)) is not None:
            await self._bad(type_url, parts, bad, error)
        if parts.finished:
            if parts.generation == self._session.generation:
                self._tell(type_url, parts.found, parts.versions)
            self._end(type_url, parts, _Done(parts.digest, parts.found, parts.versions))
        else:
            await self._put(PartsOf(type_url))

    async def _judged(self, sent: Sent, response: bytes, reasons: Mapping[str, str]) -> None:
        """Envoy has taken each resource of a response by itself, but for these."""
        resources = await self._resources(response)
        for each in resources:
            if each.name in reasons:
                self._note(sent.type_url, each, sent.version, reasons[each.name])
        good = {each.name: each.body for each in resources if each.name not in reasons}
        self._quarantine.accepted(sent.type_url, good)

    async def _bad(self, type_url: str, parts: Parts, bad: Resource, reason: str) -> None:
        """One resource is known to be bad; if Envoy has none, it gets the last good one."""
        self._note(type_url, bad, parts.version, reason)
        if self._session.may_have(type_url, bad.name):
            return
        good = await self._last_good(type_url, (bad.name,))
        if bad.name in good:
            parts.give(good[bad.name])

    def _note(self, type_url: str, bad: Resource, version: str, reason: str) -> None:
        self._quarantine.refused(
            type_url,
            bad.name,
            bad.body,
            version=bad.version or version,
            reason=reason,
            build=self._build,
        )

    def _tell(self, type_url: str, found: Mapping[str, str], versions: Mapping[str, str]) -> None:
        """Have the status name the bad resources of a refused response."""
        if found:
            self._session.delivery_status.resources_refused(
                type_url, found, versions, at=self._now()
            )

    def _end(self, type_url: str, parts: Parts, done: _Done | None) -> None:
        """Forget the parts of a response, if Envoy has answered all of them."""
        if not parts.finished:
            return
        every = self._parts[type_url]
        every.remove(parts)
        if not every:
            del self._parts[type_url]
        if done is not None:
            self._done[type_url] = done

    # An Envoy without an older version

    async def _before(self, response: ToEnvoy) -> tuple[ToEnvoy, ...]:
        raw, peeked, generation, _ = response
        type_url = peeked.type_url
        resources = await self._resources(raw)
        bodies = {each.name: each.body for each in resources}
        removed = removed_of(self._session.dialect, raw)
        for parts in self._parts.get(type_url, ()):
            parts.renew((*bodies, *removed))
        whole = type_url in WHOLE_STATE and not self._session.dialect.resources_are_wrapped
        self._quarantine.sent(type_url, bodies, removed=removed, whole=whole)
        reasons = self._quarantine.among(type_url, bodies, self._build)
        lacks = [name for name in reasons if not self._session.may_have(type_url, name)]
        by_name = type_url in GIVEN_BY_NAME
        if not lacks or not (by_name or type_url in WHOLE_STATE):
            return (response,)
        good = await self._last_good(type_url, lacks)
        replaced = with_last_good(resources, reasons if by_name else lacks, good)
        if not (good or by_name) or not (replaced or removed):
            return (response,)
        # Routes and endpoints are right or wrong by themselves. A listener may be refused for a
        # file or a port, so an Envoy that has the last good one judges the newer one anew.
        is_withheld = by_name and all(name in good for name in lacks)
        versions = {each.name: each.version or peeked.version for each in resources}
        withheld = _Withheld(response, reasons, versions) if is_withheld else None
        group = Group(replaced, removed)
        part = await self._part(
            type_url, peeked.version, group, generation, parts=None, withheld=withheld
        )
        if part is None:
            return (response,)
        self._counters.last_good_given += len(good)
        log.warning(
            "an Envoy without an older version of refused resources gets the last good ones",
            extra={
                "type_url": type_url,
                "resources": sorted(lacks)[:_SHOWN],
                "last_good": len(good),
                "reason": joined(reasons, lacks),
            },
        )
        return (part,) if is_withheld else (part, response)

    def _refuse_withheld(self, withheld: _Withheld) -> None:
        """Tell the control plane that this Envoy has not what it sent."""
        response, reasons, versions = withheld
        peeked, generation = response.peeked, response.generation
        session, type_url = self._session, peeked.type_url
        self._counters.refused += 1
        error = joined(reasons, reasons)
        if not any(each.generation > 0 for each in session.unanswered_of(type_url)):
            nack = session.refusal(peeked, error, generation=generation)
            self._tell(type_url, reasons, versions)
            if nack is not None:
                self._send(nack)
        elif session.dialect.resources_are_wrapped and generation == session.generation:
            # In state of the world, an answer to any but the newest response counts nothing.
            nonce = peeked.nonce
            self._send(session.dialect.write_request(type_url=type_url, nonce=nonce, error=error))

    async def _last_good(self, type_url: str, names: Iterable[str]) -> Mapping[str, Resource]:
        """Return the last good versions of resources, as far as they are known."""
        if self._saved is None or not self._leading():
            return {}
        saved = await self._saved.newest(type_url, self._session.node)
        found = [saved[name] for name in names if name in saved]
        good = [e for e in found if not self._quarantine.has(type_url, e.name, e.body)]
        return {each.name: each for each in marked(good)}

    async def _part(
        self,
        type_url: str,
        version: str,
        group: Group,
        generation: int,
        *,
        parts: Parts | None,
        withheld: _Withheld | None,
    ) -> ToEnvoy | None:
        """Return a part for Envoy; None if a rewriter refuses it, or takes long."""
        self._nonces += 1
        nonce = f"part-{self._nonces}"
        dialect = self._session.dialect
        raw = write_part(dialect, group, type_url=type_url, version=version, nonce=nonce)
        try:
            async with asyncio.timeout(_REWRITE_S):
                shown = await self._rewriting.rewritten_at_once(self._session.node, type_url, raw)
        except (RewriteRefused, TimeoutError):
            return None
        except Exception:
            # The boundary to a rewriter, which has failed likewise with the whole response.
            log.exception("a rewriter failed", extra={"type_url": type_url})
            return None
        self._in_flight[nonce] = _InFlight(group, parts, withheld)
        peeked = Response(type_url=type_url, version=version, nonce=nonce, control_plane="")
        return ToEnvoy(raw, peeked, -generation, shown)

    @property
    def _build(self) -> tuple[bytes, ...]:
        return build_of(self._session.node)

    async def _resources(self, response: bytes) -> tuple[Resource, ...]:
        dialect = self._session.dialect
        if len(response) > _SMALL_BYTES:
            found = await asyncio.to_thread(resources_of, dialect, response)
        else:
            found = resources_of(dialect, response)
        return tuple(each for each in found if each.body)

    async def _names(self, response: bytes) -> tuple[str, ...]:
        def names() -> tuple[str, ...]:
            dialect = self._session.dialect
            every = (name for name, _ in names_of(dialect, response))
            return (*every, *removed_of(dialect, response))

        return await asyncio.to_thread(names) if len(response) > _SMALL_BYTES else names()
