"""Types that no generator makes: a client that waits for one is told that there is nothing.

A client may take nothing else until it has heard of everything it watches, so an answer with
nothing in it is better than none, where the protocol has one: for a watch of all there is, and in
delta for names too, as removed. In a state-of-the-world response nothing says that a named
resource does not exist.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from xds_server.sources._generated import Generated
from xds_server.subscriptions._subscription import Query

if TYPE_CHECKING:
    from xds_server.monitoring._metrics import Metrics

log = logging.getLogger(__name__)

MAX_A_STREAM = 16
"""Clients choose the types that they ask for: a bound on what that can make us remember."""
_MAX_TOLD = 100
_NOTHING = Generated(resources=())


class UnservedTypes:
    """What clients have asked for in vain: each type is told once, and counted for each stream."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._logged: set[str] = set()

    def requested(self, type_url: str, *, client: str) -> None:
        """Note the first request of a stream for a type."""
        if type_url not in self._logged and len(self._logged) < _MAX_TOLD:
            self._logged.add(type_url)
            log.warning(
                "type not served: who asks for it is told that there is nothing",
                extra={"type_url": type_url[:256], "client": client},
            )
        self._metrics.unserved.inc(type_url[:256] if type_url in self._logged else "other")


def nothing(query: Query, *, delta: bool) -> Generated | None:
    """Return what answers a request for a type that there is nothing of; None: no answer."""
    return _NOTHING if query.requested and (delta or query.watch.wildcard) else None
