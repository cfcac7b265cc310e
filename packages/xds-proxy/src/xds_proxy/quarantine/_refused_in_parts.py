"""A response that Envoy refused as a whole goes to it once more, in parts.

So all but the bad resources are in force, and it is known which these are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple

from xds_proxy.protocol._resources import Resource
from xds_proxy.quarantine._given_parts import GivenParts, InFlight, names_in, resources_in
from xds_proxy.quarantine._last_good import LastGood
from xds_proxy.quarantine._parts import Parts, digest_of
from xds_proxy.quarantine._quarantine import Quarantine, build_of
from xds_proxy.quarantine._to_envoy import PartsOf, ToEnvoy
from xds_proxy.session._session import Session
from xds_proxy.session._unanswered import Sent


class _Done(NamedTuple):
    """A refused response of which Envoy has all that is good."""

    digest: bytes
    found: Mapping[str, str]
    versions: Mapping[str, str]


class RefusedInParts:
    """The responses that one Envoy refused and gets in parts.

    put: takes a place in the row of responses to Envoy.
    """

    def __init__(
        self,
        quarantine: Quarantine,
        session: Session,
        *,
        given: GivenParts,
        last_good: LastGood,
        now: Callable[[], float],
        put: Callable[[PartsOf], Awaitable[None]],
    ) -> None:
        self._quarantine = quarantine
        self._session = session
        self._given = given
        self._last_good = last_good
        self._now = now
        self._put = put
        self._parts: dict[str, list[Parts]] = {}
        self._done: dict[str, _Done] = {}

    def concerns(self, type_url: str) -> bool:
        """Return whether Envoy has not answered all parts of a type."""
        return type_url in self._parts

    def on_ack(self, type_url: str) -> None:
        """Envoy accepted a whole response: what it refused before counts no more."""
        self._done.pop(type_url, None)

    def add(self, sent: Sent) -> Parts:
        """Envoy refused a response: note it, to be begun with."""
        parts = Parts(version=sent.version, generation=sent.generation)
        self._parts.setdefault(sent.type_url, []).append(parts)
        return parts

    def renew(self, type_url: str, names: Iterable[str]) -> None:
        """A newer response has these resources, so that no older ones of them are given."""
        every = tuple(names)
        for parts in self._parts.get(type_url, ()):
            parts.renew(every)

    async def begin(
        self, sent: Sent, response: bytes, error: str, parts: Parts, newer: Iterable[Sent]
    ) -> None:
        """Begin to give a response in parts. newer: the responses that were sent after it."""
        type_url, dialect = sent.type_url, self._session.dialect
        for each in newer:
            if each.response is not None:
                parts.renew(await names_in(dialect, each.response))
        resources = await resources_in(dialect, response)
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
            known = self._quarantine.among(type_url, bodies, build_of(self._session.node))
            parts.begin(resources, known)
        if type_url in self._parts:
            await self._put(PartsOf(type_url))

    async def next_part(self, type_url: str) -> ToEnvoy | None:
        """Return the next part that waits of a type, which is about to be written."""
        for parts in tuple(self._parts.get(type_url, ())):
            while (group := parts.next()) is not None:
                part = await self._given.make(
                    type_url, parts.version, InFlight(group, parts), generation=parts.generation
                )
                if part is not None:
                    return part
                parts.on_ack()
        return None

    async def on_part_answer(self, type_url: str, part: InFlight, error: str | None) -> None:
        """Envoy answered a part. error: why it refused it; None if it accepted it."""
        group, parts, then = part
        if then is not None:
            then()
        if error is None and not group.is_last_good:
            self._quarantine.on_acceptance(type_url, group.bodies)
        if parts is None:
            return
        if error is None:
            parts.on_ack()
        elif (bad := parts.on_nack(group, error)) is not None:
            await self._bad(type_url, parts, bad, error)
        if parts.finished:
            if parts.generation == self._session.generation:
                self._tell(type_url, parts.found, parts.versions)
            self._end(type_url, parts, _Done(parts.digest, parts.found, parts.versions))
        else:
            await self._put(PartsOf(type_url))

    async def _bad(self, type_url: str, parts: Parts, bad: Resource, reason: str) -> None:
        """One resource is known to be bad; if Envoy has none, it gets the last good one."""
        self._quarantine.on_refusal(
            type_url,
            bad.name,
            bad.body,
            version=bad.version or parts.version,
            reason=reason,
            build=build_of(self._session.node),
        )
        if self._session.may_have(type_url, bad.name):
            return
        good = await self._last_good.find(type_url, (bad.name,))
        if bad.name in good:
            parts.give(good[bad.name])

    def _tell(self, type_url: str, found: Mapping[str, str], versions: Mapping[str, str]) -> None:
        """Have the status name the bad resources of a refused response."""
        if found:
            self._session.delivery_status.on_resource_refusals(
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
