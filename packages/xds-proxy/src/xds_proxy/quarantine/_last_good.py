"""The last good resources, for an Envoy that has no older version of those that are bad."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from xds_proxy.protocol._resources import Resource
from xds_proxy.protocol._shown import shorten, shown_names
from xds_proxy.quarantine._given_parts import GivenParts, InFlight
from xds_proxy.quarantine._parts import GIVEN_BY_NAME, Group, with_last_good
from xds_proxy.quarantine._quarantine import Quarantine, build_of, join_reasons
from xds_proxy.quarantine._to_envoy import ToEnvoy
from xds_proxy.saved._stale_response import with_stale_versions
from xds_proxy.session._held import WHOLE_STATE
from xds_proxy.session._session import Session
from xds_proxy.status._counters import Counters

log = logging.getLogger("xds_proxy")

_SHOWN = 10


class LastGoodResources(Protocol):
    """Knows what Envoy accepted last."""

    async def newest(self, type_url: str, node: bytes) -> Mapping[str, Resource]:
        """Return the resources of a type by name. node: Envoy's."""


class _Withheld(NamedTuple):
    """A response that Envoy does not get, and the resources in it that are bad."""

    response: ToEnvoy
    reasons: Mapping[str, str]
    versions: Mapping[str, str]


class LastGood:
    """Gives one Envoy the last good resources in the place of bad ones.

    leading: says whether the stream leads; what is saved is only that Envoy's.
    send: takes a request to the control plane.
    """

    def __init__(
        self,
        quarantine: Quarantine,
        session: Session,
        *,
        saved: LastGoodResources | None,
        given: GivenParts,
        counters: Counters,
        now: Callable[[], float],
        leading: Callable[[], bool],
        send: Callable[[bytes], None],
    ) -> None:
        self._quarantine = quarantine
        self._session = session
        self._saved = saved
        self._given = given
        self._counters = counters
        self._now = now
        self._leading = leading
        self._send = send

    async def find(self, type_url: str, names: Iterable[str]) -> Mapping[str, Resource]:
        """Return the last good versions of resources, as far as they are known."""
        if self._saved is None or not self._leading():
            return {}
        saved = await self._saved.newest(type_url, self._session.node)
        found = [saved[name] for name in names if name in saved]
        good = [e for e in found if not self._quarantine.has(type_url, e.name, e.body)]
        return {each.name: each for each in with_stale_versions(good)}

    async def in_place_of(
        self, response: ToEnvoy, resources: Sequence[Resource], removed: tuple[str, ...]
    ) -> tuple[ToEnvoy, ...]:
        """Return what Envoy gets instead of a response, or before it.

        resources, removed: of the response.
        """
        _, peeked, generation, _ = response
        type_url = peeked.type_url
        bodies = {each.name: each.body for each in resources}
        reasons = self._quarantine.among(type_url, bodies, build_of(self._session.node))
        lacks = [name for name in reasons if not self._session.may_have(type_url, name)]
        by_name = type_url in GIVEN_BY_NAME
        if not lacks or not (by_name or type_url in WHOLE_STATE):
            return (response,)
        good = await self.find(type_url, lacks)
        replaced = with_last_good(resources, reasons if by_name else lacks, good)
        if not (good or by_name) or not (replaced or removed):
            return (response,)
        # Routes and endpoints are right or wrong by themselves. A listener may be refused for a
        # file or a port, so an Envoy that has the last good one judges the newer one anew.
        is_withheld = by_name and all(name in good for name in lacks)
        versions = {each.name: each.version or peeked.version for each in resources}
        withheld = _Withheld(response, reasons, versions)
        then = partial(self._refuse, withheld) if is_withheld else None
        given = InFlight(Group(replaced, removed), None, then)
        part = await self._given.make(type_url, peeked.version, given, generation=generation)
        if part is None:
            return (response,)
        self._counters.last_good_given += len(good)
        log.warning(
            "Envoy has no older version of resources that were refused: it gets the last good ones",
            extra={
                "type_url": type_url,
                "resources": shown_names(sorted(lacks)[:_SHOWN]),
                "last_good": len(good),
                "reason": shorten(join_reasons(reasons, lacks)),
            },
        )
        return (part,) if is_withheld else (part, response)

    def _refuse(self, withheld: _Withheld) -> None:
        """Tell the control plane that this Envoy has not what it sent."""
        response, reasons, versions = withheld
        peeked, generation = response.peeked, response.generation
        session, type_url = self._session, peeked.type_url
        self._counters.refused += 1
        error = join_reasons(reasons, reasons)
        if not any(each.generation > 0 for each in session.unanswered_of(type_url)):
            nack = session.refusal(peeked, error, generation=generation)
            session.delivery_status.on_resource_refusals(
                type_url, reasons, versions, at=self._now()
            )
            if nack is not None:
                self._send(nack)
        elif session.dialect.resources_are_wrapped and generation == session.generation:
            # In state of the world, an answer to any but the newest response counts nothing.
            nonce = peeked.nonce
            self._send(session.dialect.write_request(type_url=type_url, nonce=nonce, error=error))
