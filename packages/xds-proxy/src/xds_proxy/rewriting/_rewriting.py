"""The types whose resources the agent changes before Envoy gets them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Protocol

from mesh_protowire import WireError
from xds_proxy._errors import RewriteRefused
from xds_proxy.protocol._dialect import Dialect, Response
from xds_proxy.protocol._resources import (
    Resource,
    names_of,
    removed_of,
    resources_of,
    with_bodies,
)
from xds_proxy.rewriting._rewritten import RewrittenResponses

log = logging.getLogger("xds_proxy")

_QUICK_S = 0.1
"""So long a rewrite may take for its response to keep its place among those of other types."""

_SMALL_BYTES = 64 * 1024
_MOST_WAITING = 16


class Rewriter(Protocol):
    """Changes resources on their way to Envoy, such as a remote Wasm module into a local file.

    A rewrite runs beside the stream: other types pass meanwhile. Of one type the order is kept, and
    a response that has every resource of an earlier one supersedes it if that one is still being
    rewritten: its rewrite is cancelled.
    """

    def concerns(self, node: bytes, type_url: str) -> bool:
        """Return whether responses of this type to this Envoy may have to be changed.

        node: Envoy's serialised `envoy.config.core.v3.Node`. Called on the event loop for each
        response: it must be quick.
        """

    async def rewrite(self, node: bytes, type_url: str, bodies: Sequence[bytes]) -> Sequence[bytes]:
        """Return the bodies for Envoy, as many as there are and in the same order.

        bodies: each resource's serialised `google.protobuf.Any`; in delta, resources without one
        are left out. A body that is the same object as before is unchanged; if all are, the
        response passes byte for byte.

        Raises:
            RewriteRefused: the response cannot be used. The relay refuses it (NACK) with the text,
                and Envoy does not get it. Any other exception is logged, and refused likewise.
        """


class Rewrite:
    """One response on its way through the rewriters.

    raw: as the control plane sent it. generation: of the upstream stream that sent it.
    superseded: a newer response has all that is in this one.
    """

    def __init__(self, raw: bytes, peeked: Response, *, generation: int) -> None:
        self.raw = raw
        self.peeked = peeked
        self.generation = generation
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.superseded = False
        self.work: asyncio.Task[bytes] | None = None


class Rewriting:
    """The rewriters of one stream, and the responses that they work on."""

    def __init__(
        self,
        rewriters: Sequence[Rewriter],
        *,
        dialect: Dialect,
        on_rewrite: Callable[[Rewrite, bytes], Awaitable[None]],
        on_refusal: Callable[[Rewrite, str], None],
    ) -> None:
        """on_rewrite: called with a response as Envoy is to get it. on_refusal: with the reason."""
        self._rewriters = rewriters
        self._dialect = dialect
        self._on_rewrite = on_rewrite
        self._on_refusal = on_refusal
        self._of_type: dict[str, deque[Rewrite]] = {}
        self._changed = RewrittenResponses(dialect)
        self._again: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self._started: asyncio.Queue[str] = asyncio.Queue()

    def concerns(self, node: bytes, type_url: str) -> bool:
        """Return whether a response of this type has to go this way."""
        return bool(self._rewriters) and (
            type_url in self._of_type or any(_concerns(r, node, type_url) for r in self._rewriters)
        )

    async def add(self, node: bytes, rewrite: Rewrite) -> None:
        """Rewrite a response. Returns when that is done, or takes longer than a moment."""
        type_url = rewrite.peeked.type_url
        waiting = self._of_type.get(type_url)
        if waiting is None:
            waiting = self._of_type[type_url] = deque()
            self._started.put_nowait(type_url)
        else:
            await self._supersede(waiting, rewrite)
            while len(waiting) >= _MOST_WAITING:
                await asyncio.wait([waiting[0].finished])
            if self._of_type.get(type_url) is not waiting:  # all are done meanwhile
                await self.add(node, rewrite)
                return
        rewrite.work = asyncio.create_task(
            self._rewrite(node, rewrite, after=waiting[-1] if waiting else None),
            name="xds-proxy: rewriting",
        )
        waiting.append(rewrite)
        await asyncio.wait([rewrite.finished], timeout=_QUICK_S)

    def under_way(self) -> list[Rewrite]:
        """Return the responses that have not been passed on."""
        return [each for one in self._of_type.values() for each in one if not each.superseded]

    def again(self, type_url: str, name: str) -> None:
        """Rewrite a resource once more, and give it to Envoy, if a rewriter had changed it."""
        self._again.put_nowait((type_url, name))

    async def run(self, node: Callable[[], bytes]) -> None:
        """Pass rewritten responses on, of each type in order; runs until it is cancelled.

        node: returns Envoy's.
        """
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._run_again(node), name="xds-proxy: rewriting again")
                while True:
                    type_url = await self._started.get()
                    group.create_task(self._run_type(type_url), name="xds-proxy: rewritten")
        finally:
            works = [each.work for one in self._of_type.values() for each in one if each.work]
            for work in works:
                work.cancel()
            await asyncio.gather(*works, return_exceptions=True)

    async def _run_again(self, node: Callable[[], bytes]) -> None:
        while True:
            type_url, name = await self._again.get()
            while waiting := self._of_type.get(type_url):
                # These responses bring newer resources than those that were rewritten before.
                await asyncio.wait([waiting[-1].finished])
                await asyncio.sleep(0)
            if (found := self._changed.again(type_url, name)) is not None:
                await self.add(node(), Rewrite(found.raw, found.peeked, generation=0))

    async def _run_type(self, type_url: str) -> None:
        waiting = self._of_type[type_url]
        while waiting:
            rewrite = waiting[0]
            if (work := rewrite.work) is not None:
                await asyncio.wait([work])
                await self._finish(rewrite, work)
            waiting.popleft()
            rewrite.finished.set_result(None)
        del self._of_type[type_url]

    async def _finish(self, rewrite: Rewrite, work: asyncio.Task[bytes]) -> None:
        if rewrite.superseded:
            return
        if work.cancelled():
            self._on_refusal(rewrite, "internal error (CancelledError)")
            return
        match work.exception():
            case None:
                await self._on_rewrite(rewrite, work.result())
            case RewriteRefused() as error:
                self._on_refusal(rewrite, str(error) or "refused")
            case WireError() as error:
                self._on_refusal(rewrite, f"the response is malformed: {error}")
            case error:
                log.error(
                    "a rewriter failed",
                    extra={"type_url": rewrite.peeked.type_url},
                    exc_info=error,
                )
                self._on_refusal(rewrite, f"internal error ({type(error).__name__})")

    async def _rewrite(self, node: bytes, rewrite: Rewrite, *, after: Rewrite | None) -> bytes:
        if after is not None:
            await asyncio.wait([after.finished])
        raw, type_url = rewrite.raw, rewrite.peeked.type_url
        resources, whole = await self._bodies(node, type_url, raw)
        changed = [new is not old.body for new, old in zip(whole, resources, strict=True)]
        self._changed.note(raw, rewrite.peeked, resources, changed)
        return await self._with_bodies(raw, whole) if any(changed) else raw

    async def rewritten_at_once(self, node: bytes, type_url: str, raw: bytes) -> bytes:
        """Return a response as the rewriters leave it, out of the order of the others.

        Raises what a rewriter raises, RewriteRefused for one.
        """
        if not self.concerns(node, type_url):
            return raw
        _, whole = await self._bodies(node, type_url, raw)
        return await self._with_bodies(raw, whole)

    async def _bodies(
        self, node: bytes, type_url: str, raw: bytes
    ) -> tuple[Sequence[Resource], list[bytes]]:
        """Return the resources of a response, and their bodies as the rewriters leave them."""
        if len(raw) > _SMALL_BYTES:
            resources = await asyncio.to_thread(resources_of, self._dialect, raw)
        else:
            resources = resources_of(self._dialect, raw)
        before = [each.body for each in resources if each.body]
        bodies: Sequence[bytes] = before
        for rewriter in self._rewriters:
            if _concerns(rewriter, node, type_url):
                bodies = await rewriter.rewrite(node, type_url, bodies)
                if len(bodies) != len(before):
                    raise ValueError(f"{len(bodies)} bodies came back for {len(before)}")
        remaining = iter(bodies)
        return resources, [next(remaining) if each.body else b"" for each in resources]

    async def _with_bodies(self, raw: bytes, bodies: Sequence[bytes]) -> bytes:
        if len(raw) > _SMALL_BYTES:
            return await asyncio.to_thread(with_bodies, self._dialect, raw, bodies)
        return with_bodies(self._dialect, raw, bodies)

    async def _supersede(self, waiting: deque[Rewrite], newer: Rewrite) -> None:
        """Cancel the rewrites of responses of which the newer one has every resource."""
        names = await self._names(newer.raw)
        for rewrite in tuple(waiting):
            if rewrite.work is None or rewrite.work.done():
                continue
            if await self._names(rewrite.raw) <= names:
                rewrite.superseded = True
                rewrite.work.cancel()

    async def _names(self, raw: bytes) -> frozenset[str]:
        if len(raw) > _SMALL_BYTES:
            return await asyncio.to_thread(_names, self._dialect, raw)
        return _names(self._dialect, raw)


def _names(dialect: Dialect, raw: bytes) -> frozenset[str]:
    with suppress(WireError):
        return frozenset((*(name for name, _ in names_of(dialect, raw)), *removed_of(dialect, raw)))
    return frozenset()


def _concerns(rewriter: Rewriter, node: bytes, type_url: str) -> bool:
    try:
        return rewriter.concerns(node, type_url)
    except Exception:
        # The boundary to a rewriter: one that does not know what concerns it changes nothing.
        log.exception("a rewriter failed", extra={"type_url": type_url})
        return False
