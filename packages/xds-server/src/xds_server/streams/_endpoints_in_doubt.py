"""Endpoints that a delta client may have lost with its last stream, and that the next one sends.

A delta client that reconnects says which endpoints it has, and is not sent them again. But the
cluster it warms may wait for the very same endpoints, if the stream broke between the two.
"""

from __future__ import annotations

from xds_server.protocol._names import NO_NAMES
from xds_server.subscriptions._warming import Warming

_REMEMBERED = 10_000
"""Nodes that are gone and may come back."""


class EndpointsInDoubt:
    """The endpoints in doubt of each node, from its last delta stream to its next.

    The last stream may not have ended yet, as a broken connection is noticed late.
    """

    def __init__(self) -> None:
        self._connected: dict[str, Warming] = {}
        self._gone: dict[str, frozenset[str]] = {}

    def on_open(self, node_id: str, warming: Warming) -> frozenset[str]:
        """Take note of a new stream; return the endpoints in doubt on the one before."""
        before = self._connected.get(node_id)
        self._connected[node_id] = warming
        gone = self._gone.pop(node_id, NO_NAMES)
        return gone if before is None else gone | before.in_doubt()

    def on_close(self, node_id: str, warming: Warming) -> None:
        """Take note that a stream is over."""
        if self._connected.get(node_id) is not warming:
            return
        del self._connected[node_id]
        if in_doubt := warming.in_doubt():
            self._gone[node_id] = in_doubt
            if len(self._gone) > _REMEMBERED:
                del self._gone[next(iter(self._gone))]
