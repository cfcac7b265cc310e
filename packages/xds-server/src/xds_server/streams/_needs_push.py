"""Which clients a change is pushed to: asks `needs_push`, the filter that the server was given."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from xds_server.pushing._push_request import PushRequest
from xds_server.sources._generator import Client
from xds_server.streams._connection import Connection

if TYPE_CHECKING:
    from xds_server.monitoring._metrics import Metrics

log = logging.getLogger(__name__)

C = TypeVar("C")


class NeedsPush(Generic[C]):
    """Tells whether a change is pushed to a connection; if the filter fails, it is.

    The server asks this of every connection when a push is queued (`XdsServer._push`), and of one
    connection when its request may overtake a change that is gathered still (`_is_behind`).
    """

    def __init__(
        self, needs_push: Callable[[Client[C], PushRequest], bool], *, metrics: Metrics
    ) -> None:
        self._needs_push = needs_push
        self._metrics = metrics
        self._failed_on: PushRequest | None = None

    def __call__(self, connection: Connection[C], request: PushRequest) -> bool:
        """Return whether to push; a fault of the filter costs a push too many, not one too few."""
        try:
            return self._needs_push(connection.client, request)
        except Exception:
            self._metrics.internal_errors.inc()
            if request is not self._failed_on:  # once a push, not once a client
                self._failed_on = request
                log.exception(
                    "asking whether a client needs a push failed; clients like it are pushed to",
                    extra=connection.log_facts(),
                )
            return True
