"""Why a push happens, in words: for the responses of the push and for the status of clients."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from xds_server._config import ServerConfig
from xds_server.pushing._push_request import PushRequest

if TYPE_CHECKING:
    from xds_server.monitoring._metrics import Metrics

log = logging.getLogger(__name__)

_PUSHES_UNDER_WAY = 32
"""Descriptions that are kept; a push with more different merged requests describes some again."""


class PushDescription(NamedTuple):
    """The identifier of the control plane that the responses name, and the reasons for a push."""

    identifier: str
    reasons: tuple[str, ...] = ()


class PushDescriptions:
    """Describes each push request once, for however many clients."""

    def __init__(self, config: ServerConfig, *, metrics: Metrics) -> None:
        self._config = config
        self._metrics = metrics
        self._described = lru_cache(maxsize=_PUSHES_UNDER_WAY)(self._describe)
        self._last: tuple[PushRequest, PushDescription] | None = None

    def describe(self, push: PushRequest | None) -> PushDescription:
        """Return the description of a push request; of None: of an answer to a request."""
        last = self._last
        if last is not None and last[0] is push:
            return last[1]  # A request is hashed with all of its keys, for each client anew.
        description = self._described(push)
        if push is not None:
            self._last = (push, description)
        return description

    def _describe(self, push: PushRequest | None) -> PushDescription:
        reasons = () if push is None else push.described_reasons()
        return PushDescription(self._identifier(push), reasons)

    def _identifier(self, push: PushRequest | None) -> str:
        if self._config.control_plane is None:
            return self._config.identifier
        try:
            return self._config.control_plane(push)
        except Exception:  # A fault of the host's costs a text, not a push.
            self._metrics.internal_errors.inc()
            log.exception(
                "naming the control plane failed; responses have the plain identifier",
                extra={"identifier": self._config.identifier},
            )
            return self._config.identifier
