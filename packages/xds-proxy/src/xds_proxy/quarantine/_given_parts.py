"""Parts as responses: those that one Envoy was given and has not answered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from xds_proxy._errors import RewriteRefused
from xds_proxy.protocol._dialect import Dialect, Response
from xds_proxy.protocol._resources import Resource, names_of, removed_of, resources_of
from xds_proxy.quarantine._parts import Group, Parts, write_part
from xds_proxy.quarantine._to_envoy import ToEnvoy
from xds_proxy.rewriting._rewriting import Rewriting
from xds_proxy.session._session import Session

log = logging.getLogger("xds_proxy")

_REWRITE_S = 5.0
_SMALL_BYTES = 64 * 1024


class InFlight(NamedTuple):
    """A part that Envoy has not answered.

    parts: of the refused response that it is of; None for one in the place of a response that Envoy
    does not get. then: called once Envoy has answered it.
    """

    group: Group
    parts: Parts | None
    then: Callable[[], None] | None = None


class GivenParts:
    """The parts that Envoy was given, by the nonces that this side has given them."""

    def __init__(self, session: Session, rewriting: Rewriting) -> None:
        self._session = session
        self._rewriting = rewriting
        self._in_flight: dict[str, InFlight] = {}
        self._nonces = 0

    def on_answer(self, nonce: str) -> InFlight | None:
        """Envoy has answered a part. Returns it."""
        return self._in_flight.pop(nonce, None)

    async def make(
        self, type_url: str, version: str, part: InFlight, *, generation: int
    ) -> ToEnvoy | None:
        """Return a part for Envoy; None if a rewriter refuses it, or takes long."""
        self._nonces += 1
        nonce = f"part-{self._nonces}"
        dialect = self._session.dialect
        raw = write_part(dialect, part.group, type_url=type_url, version=version, nonce=nonce)
        try:
            async with asyncio.timeout(_REWRITE_S):
                shown = await self._rewriting.rewritten_at_once(self._session.node, type_url, raw)
        except (RewriteRefused, TimeoutError):
            return None
        except Exception:
            # The boundary to a rewriter, which has failed likewise with the whole response.
            log.exception("a rewriter failed", extra={"type_url": type_url})
            return None
        self._in_flight[nonce] = part
        peeked = Response(type_url=type_url, version=version, nonce=nonce, control_plane="")
        return ToEnvoy(raw, peeked, -generation, shown)


async def resources_in(dialect: Dialect, response: bytes) -> tuple[Resource, ...]:
    """Return the resources of a response that have a content; large ones are read in a thread."""
    if len(response) > _SMALL_BYTES:
        found = await asyncio.to_thread(resources_of, dialect, response)
    else:
        found = resources_of(dialect, response)
    return tuple(each for each in found if each.body)


async def names_in(dialect: Dialect, response: bytes) -> tuple[str, ...]:
    """Return the names of the resources that a response has or removes."""

    def names() -> tuple[str, ...]:
        every = (name for name, _ in names_of(dialect, response))
        return (*every, *removed_of(dialect, response))

    return await asyncio.to_thread(names) if len(response) > _SMALL_BYTES else names()
