"""Decides when an Envoy gets saved configuration, and gives it: while no control plane answers.

An Envoy that has configuration keeps it, whatever happens to the control plane. One that has none
asks for a type without naming a version; if no control plane has answered for some seconds, it gets
what is saved of the type. It then asks for the next type by itself, as it always does: clusters,
endpoints, listeners, routes. The first response of the control plane ends that at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol

from mesh_lifecycle import Clock
from xds_proxy.protocol._dialect import Dialect
from xds_proxy.protocol._shown import shown_names
from xds_proxy.saved._configuration import SavedConfiguration
from xds_proxy.saved._stale_response import StaleResponse, stale_response
from xds_proxy.saved._store import can_be_saved

log = logging.getLogger("xds_proxy")

_CONNECTED_S = 2.0
"""A control plane that has taken the connection gets this long, also if it was away before."""
_ANSWERS_S = 10.0
_SHOWN = 10


class OwnTypes(Protocol):
    """The agent's own types, which it takes from saved configuration as well."""

    def types_to_save(self) -> tuple[str, ...]:
        """Return the type URLs."""

    def apply_saved(self, type_url: str, bodies: tuple[bytes, ...]) -> None:
        """Use saved resources of a type; each one is a serialised Any."""


class StaleStart:
    """Saved configuration and when it is used, for all streams of a relay; does no I/O of its own.

    start_after_s: how long no control plane has answered before it is used.
    """

    def __init__(
        self, saved: SavedConfiguration, own: OwnTypes, *, start_after_s: float, clock: Clock
    ) -> None:
        self.saved = saved
        self.own = own
        self.start_after_s = start_after_s
        self.clock = clock
        self.starts = 0
        """How many Envoys were given saved configuration."""
        self._answering = 0
        self._silent_since: float | None = None
        self.own_are_saved = False
        """The agent's own types are from saved configuration."""

    def silent_since(self, wanted_at: float) -> float:
        """Return since when no control plane has answered, though one was wanted; monotonic.

        wanted_at: since when this Envoy has wanted one.
        """
        if self._answering:
            return wanted_at  # it answers another Envoy
        if self._silent_since is None:
            self._silent_since = wanted_at
        return self._silent_since

    def on_answer(self) -> None:
        """A control plane answers on one more stream."""
        self._answering += 1
        self._silent_since = None
        self.own_are_saved = False
        self.saved.answering(answers=True)

    def on_stream_end(self) -> None:
        """A stream on which a control plane answered has ended."""
        self._answering -= 1
        if not self._answering:
            self._silent_since = self.clock.monotonic()
            self.saved.answering(answers=False)


class _Type:
    """One type that Envoy asked for without having any of it.

    looked_for: the names that were looked for in what is saved; None before.
    had: the names that Envoy got. is_stale: it got some, and nothing of the control plane's since.
    """

    __slots__ = ("had", "is_stale", "looked_for")

    def __init__(self) -> None:
        self.looked_for: frozenset[str] | None = None
        self.had: frozenset[str] = frozenset()
        self.is_stale = False


class Feeding:
    """Gives one Envoy what is saved; for one stream.

    node: returns Envoy's serialised node. subscription: returns the names that Envoy asks for of a
        type, None for all. put: takes a response to Envoy; the next is generated when it returns.
    """

    def __init__(
        self,
        stale: StaleStart,
        dialect: Dialect,
        *,
        node: Callable[[], bytes],
        subscription: Callable[[str], frozenset[str] | None],
        put: Callable[[str, bytes], Awaitable[None]],
    ) -> None:
        self._stale = stale
        self._dialect = dialect
        self._node = node
        self._subscription = subscription
        self._put = put
        self._types: dict[str, _Type] = {}
        self._answered_types: set[str] = set()
        """Those that the control plane has sent on this stream, or that Envoy had before."""
        self._wake = asyncio.Event()
        self._wanted_at: float | None = None
        self._opened_at: float | None = None
        self._upstream_answers = False
        self._feeds = False
        self._refused = False
        self._nonces = 0
        self._unanswered = 0
        self._settled = asyncio.Event()
        self._settled.set()
        self.current_at: datetime | None = None
        """Until when it was current what Envoy got; None if it got nothing."""
        self.upstream_lacks_saved = False
        """The upstream stream was opened before Envoy had what it has now of the saved."""

    # Called by the stream

    def on_request(self, type_url: str, *, names_versions: bool) -> None:
        """Envoy has asked for a type. names_versions: it says that it has some of it."""
        if type_url in self._answered_types:
            return
        if type_url not in self._types:
            if names_versions or not can_be_saved(type_url):
                self._answered_types.add(type_url)
                return
            self._types[type_url] = _Type()
        if self._wanted_at is None:
            self._wanted_at = self._stale.clock.monotonic()
        self._wake.set()

    def on_upstream_open(self) -> None:
        """There is an upstream stream, which has been sent what Envoy asks for and has."""
        self._opened_at = self._stale.clock.monotonic()
        self.upstream_lacks_saved = False
        self._wake.set()

    def on_upstream_answer(self) -> None:
        """The upstream stream has its first response."""
        self._upstream_answers = True
        self._feeds = False
        self._stale.on_answer()

    def on_upstream_end(self) -> None:
        """There is no upstream stream any more."""
        self._opened_at = None
        if self._upstream_answers:
            self._upstream_answers = False
            self._wanted_at = self._stale.clock.monotonic()
            self._stale.on_stream_end()
        self._wake.set()

    def on_response(self, type_url: str) -> None:
        """Envoy gets a response of the control plane's."""
        self._answered_types.add(type_url)
        known = self._types.pop(type_url, None)
        if known is not None and known.is_stale and not self.types:
            log.info("the control plane's configuration has replaced the saved one")

    def on_answer(self) -> None:
        """Envoy has accepted or refused a response from saved configuration, or won't get it."""
        self._unanswered = max(0, self._unanswered - 1)
        if not self._unanswered:
            self._settled.set()

    @property
    def types(self) -> frozenset[str]:
        """The types of which Envoy has saved resources, and none of the control plane's."""
        return frozenset(
            type_url
            for type_url, known in self._types.items()
            if known.is_stale and self._subscription(type_url) != frozenset()
        )

    async def wait_settled(self) -> None:
        """Wait until Envoy has answered what it got, so that it is known what it has."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_ANSWERS_S):
                await self._settled.wait()

    async def run(self) -> None:
        """Give Envoy what is saved, when it is time; runs until it is cancelled."""
        while True:
            self._wake.clear()
            wait_s = self._seconds_until_due()
            if wait_s is not None and wait_s <= 0:
                await self._feed()
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()

    def _seconds_until_due(self) -> float | None:
        """Return how long until something is to be fed; None if nothing is."""
        if self._upstream_answers or self._refused or not any(map(self._lacks, self._types)):
            return None
        if self._feeds:
            return 0.0
        stale = self._stale
        now = stale.clock.monotonic()
        due = stale.silent_since(now if self._wanted_at is None else self._wanted_at)
        due += stale.start_after_s
        if self._opened_at is not None:
            due = max(due, self._opened_at + min(stale.start_after_s, _CONNECTED_S))
        return due - now

    def _lacks(self, type_url: str) -> bool:
        """Return whether Envoy asks for something of a type that has not been looked for."""
        known, names = self._types[type_url], self._subscription(type_url)
        if known.looked_for is None:
            return names is None or bool(names)
        return names is not None and not names <= known.looked_for

    async def _feed(self) -> None:
        """Give Envoy one type that it lacks."""
        if not self._feeds and not await self._begin():
            return
        for type_url in tuple(self._types):
            if type_url in self._types and self._lacks(type_url):
                await self._feed_type(type_url)
                return

    async def _begin(self) -> bool:
        """Check what is saved; returns whether it can be used and no control plane answers."""
        stale = self._stale
        stale.saved.belongs_to(self._node())
        current_at = await stale.saved.load()
        if self._upstream_answers:
            return False
        if current_at is None:
            self._refused = True
            return False
        self._feeds = True
        if self.current_at is None:
            stale.starts += 1
        self.current_at = current_at
        age_s = stale.clock.now() - current_at.timestamp()
        log.warning(
            "no control plane answers, Envoy gets the saved configuration",
            extra={
                "current_at": current_at.astimezone(UTC).isoformat(timespec="seconds"),
                "age_s": round(age_s),
            },
        )
        await self._apply_own()
        return not self._upstream_answers

    async def _apply_own(self) -> None:
        stale = self._stale
        if stale.own_are_saved:
            return
        stale.own_are_saved = True
        for type_url in stale.own.types_to_save():
            found = await stale.saved.find(type_url)
            if found and stale.own_are_saved:
                ordered = sorted(found.items())
                stale.own.apply_saved(type_url, tuple(each.body for _, each in ordered))

    async def _feed_type(self, type_url: str) -> None:
        saved = self._stale.saved
        found = await saved.find(type_url)
        known = self._types.get(type_url)
        if self._upstream_answers or known is None:
            return
        names = self._subscription(type_url)
        self._nonces += 1
        response = stale_response(
            self._dialect,
            type_url,
            found,
            version=saved.version(type_url),
            names=names,
            has=known.had,
            nonce=f"saved-{self._nonces}",
        )
        known.looked_for = (known.looked_for or frozenset()) | (names or frozenset())
        if response is not None:
            await self._send(type_url, known, response)

    async def _send(self, type_url: str, known: _Type, response: StaleResponse) -> None:
        known.had |= response.names
        known.is_stale = True
        # In state of the world, a response of the control plane's has all that there is.
        self.upstream_lacks_saved = (
            self._dialect.resources_are_wrapped and self._opened_at is not None
        )
        self._unanswered += 1
        self._settled.clear()
        if response.missing:
            log.warning(
                "some resources that Envoy asks for were never saved: it gets empty ones",
                extra={
                    "type_url": type_url,
                    "count": len(response.missing),
                    "resources": shown_names(response.missing[:_SHOWN]),
                },
            )
        await self._put(type_url, response.message)
