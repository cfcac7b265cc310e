"""Pushes the source's changes: trust bundles first, the rest when the bundles were acknowledged.

A certificate that chains to a new root must not be used before that root is known. On one stream
the order of responses is enough, but Envoy asks for each secret on a stream of its own. There, only
the ACK of the bundle tells that its subscriber has it.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack

from mesh_listening import PeerCredentials
from mesh_sds.delivery._delivery_status import DeliveryStatus
from mesh_sds.delivery._generator import SecretGenerator, push_of
from mesh_sds.secrets._secrets import SecretSource
from xds_server import XdsServer, type_urls

log = logging.getLogger("mesh_sds")

_AGAIN_AFTER_S = 1.0


class Pusher:
    """Pushes the changes of a source."""

    def __init__(
        self,
        server: XdsServer[PeerCredentials | None],
        generator: SecretGenerator,
        *,
        delivery_status: DeliveryStatus,
        failures: asyncio.Event,
        bundle_ack_timeout_s: float,
    ) -> None:
        self._server = server
        self._generator = generator
        self._delivery_status = delivery_status
        self._failures = failures
        self._pushing = asyncio.Lock()
        self._bundle_ack_timeout_s = bundle_ack_timeout_s
        self._bundles: dict[str, str] = {}
        self._bundles_due_at = 0.0
        self.overdue_bundles = 0
        """How often certificates were sent though a subscriber had not answered a bundle."""

    async def follow(self, source: SecretSource) -> None:
        """Push the source's changes; never returns. A source that fails is subscribed to again.

        Subscribing anew loses nothing: a source begins with what it has.
        """
        while True:
            try:
                async with AsyncExitStack() as stack:
                    changes = source.changes()
                    if (close := getattr(changes, "aclose", None)) is not None:
                        stack.push_async_callback(close)
                    async for names in changes:
                        await self.push(names)
                log.warning("secret source ended, secrets stay as they are")
                await asyncio.Event().wait()
            except Exception:
                log.exception("secret source failed, subscribing again")
            await asyncio.sleep(_AGAIN_AFTER_S)

    async def retry_failing(self) -> None:
        """Ask the source again for the names it raised for, as long as a stream asks for them."""
        while True:
            await self._failures.wait()
            self._failures.clear()
            await asyncio.sleep(_AGAIN_AFTER_S)
            failing = self._generator.failing
            failing &= self._delivery_status.names()
            if failing:
                try:
                    await self.push(frozenset(failing))
                except Exception:
                    log.exception("pushing again failed")
                    self._failures.set()

    async def push(self, names: Collection[str]) -> None:
        """Push these names to the streams that ask for them."""
        async with self._pushing:
            await self._push(names)

    async def _push(self, names: Collection[str]) -> None:
        bundles = self._generator.bundle_versions(names)
        loop = asyncio.get_running_loop()
        if bundles:
            self._server.push_now(push_of(bundles))
            self._bundles.update(bundles)
            self._bundles_due_at = loop.time() + self._bundle_ack_timeout_s
        others = frozenset(names).difference(bundles)
        if others:
            if self._bundles:
                await self._wait_for_bundles()
            self._server.push_now(push_of(others))

    async def _wait_for_bundles(self) -> None:
        """Wait until every subscriber of a pushed bundle has answered, or is overdue."""
        bundles, self._bundles = self._bundles, {}
        answers: asyncio.Queue[str] = asyncio.Queue()
        with self._delivery_status.listener(answers.put_nowait):
            waiting_for = self._unanswered_streams(bundles)
            try:
                async with asyncio.timeout_at(self._bundles_due_at):
                    while waiting_for:
                        client_id = await answers.get()
                        if not self._delivery_status.is_unanswered(client_id, bundles):
                            waiting_for.discard(client_id)
            except TimeoutError:
                self.overdue_bundles += 1
                log.warning(
                    "trust bundle not answered in time, pushing certificates all the same",
                    extra={
                        "bundles": sorted(bundles),
                        "subscribers": sorted(waiting_for),
                        "timeout_s": self._bundle_ack_timeout_s,
                    },
                )

    def _unanswered_streams(self, bundles: Mapping[str, str]) -> set[str]:
        """Return the streams that have yet to answer; the server knows their names exactly."""
        return {
            client.id
            for client in self._server.clients()
            if (status := client.types.get(type_urls.SECRET)) is not None
            and not status.names.isdisjoint(bundles)
            and self._delivery_status.is_unanswered(
                client.id, {name: v for name, v in bundles.items() if name in status.names}
            )
        }
