"""Generators that observe connected clients, and the push that follows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from xds_server.pushing._push_request import ConfigKey, PushRequest
from xds_server.sources._generator import Client, ClientObserver, Generator

if TYPE_CHECKING:
    from xds_server.monitoring._metrics import Metrics

log = logging.getLogger(__name__)

C = TypeVar("C")


class ClientObservers(Generic[C]):
    """The generators that are `ClientObserver`; mostly there are none, and nothing is done."""

    def __init__(self, generators: Mapping[str, Generator[C]], *, metrics: Metrics) -> None:
        following = {t: g for t, g in generators.items() if isinstance(g, ClientObserver)}
        self.type_urls = frozenset(following)
        """The types they generate, which have changed after each call of an observer."""
        self._generators = tuple({id(g): g for g in following.values()}.values())
        self._metrics = metrics

    def on_connect(self, client: Client[C]) -> PushRequest | None:
        """Call them for a new client; return what to push to the clients that watch `type_urls`."""
        return self._call(client, "connect", [g.on_connect for g in self._generators])

    def on_disconnect(self, client: Client[C]) -> PushRequest | None:
        """Call them for a client that has gone; return what to push likewise."""
        return self._call(client, "disconnect", [g.on_disconnect for g in self._generators])

    def _call(
        self, client: Client[C], trigger: str, handlers: list[Callable[[Client[C]], None]]
    ) -> PushRequest | None:
        for handler in handlers:
            try:
                handler(client)
            except Exception:  # A generator's fault is not the client's.
                self._metrics.internal_errors.inc()
                log.exception("telling a generator of a client failed", extra={"client": client.id})
        if not handlers:
            return None
        key = ConfigKey(kind="Client", name=client.id, namespace="")
        return PushRequest(incremental=True, configs_updated=frozenset({key}), triggers=(trigger,))
