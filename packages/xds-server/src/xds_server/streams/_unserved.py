"""Types that no generator makes: a client that waits for one gets an answer without any.

A client may accept nothing else until it has a response of every type it watches, so an empty
response is better than none, where the protocol has one: for a watch of everything, and in delta
for names too, as removed. A state-of-the-world response can't say that a named resource does not
exist.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Container
from typing import TYPE_CHECKING

from xds_server.sources._generated import Generated
from xds_server.subscriptions._subscription import Query

if TYPE_CHECKING:
    from xds_server.monitoring._metrics import Metrics

log = logging.getLogger(__name__)

_MOST_A_STREAM = 16
"""Unserved types that are kept for one stream: clients choose them, and they take memory."""
_MOST_LOGGED = 100
_NOTHING = Generated(resources=())


class UnservedTypes:
    """The types that clients asked for in vain: each is logged once and counted a stream.

    served: the types that a generator makes. reported: those that are never answered.
    """

    def __init__(
        self, metrics: Metrics, *, served: Container[str], reported: Container[str]
    ) -> None:
        self._metrics = metrics
        self._served = served
        self._reported = reported
        self._logged: set[str] = set()

    def may_answer(self, type_url: str, *, subscribed: Collection[str], client: str) -> bool:
        """Return whether to answer a request for a type, be it served or not.

        subscribed: the types that the stream has asked for before. The first request for another
        type that is not served is counted.
        """
        if type_url in self._served or type_url in subscribed:
            return True
        if sum(each not in self._served for each in subscribed) >= _MOST_A_STREAM:
            return False
        self._record(type_url, client=client)
        return type_url not in self._reported

    def _record(self, type_url: str, *, client: str) -> None:
        if type_url not in self._logged and len(self._logged) < _MOST_LOGGED:
            self._logged.add(type_url)
            log.warning(
                "type not served: clients that ask for it get an empty answer",
                extra={"type_url": type_url[:256], "client": client},
            )
        self._metrics.unserved.inc(type_url[:256] if type_url in self._logged else "other")


def empty_answer(query: Query, *, delta: bool) -> Generated | None:
    """Return the answer to a query for a type that is not served; None: there is no answer."""
    return _NOTHING if query.requested and (delta or query.watch.wildcard) else None
