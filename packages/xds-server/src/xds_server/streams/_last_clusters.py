"""The clusters that a state-of-the-world client had on its last stream.

When it comes back it does not say which it has, and is sent all there are. It removes all others at
once, though its listeners and routes may still use them, or drain with them. A delta client says
which it has.
"""

from __future__ import annotations

from typing import Protocol

from mesh_lifecycle import Clock
from xds_server._signal import Signal
from xds_server.subscriptions._sotw import NO_CLUSTERS, ClientClusters

_KEPT_S = 300.0
"""How long the clusters of a node that has gone stay in memory."""
_REMEMBERED = 1000
"""Nodes that are gone and may come back."""


class ClusterStream(Protocol):
    """A stream that knows the clusters of its client."""

    def client_clusters(self) -> ClientClusters: ...


class LastClusters:
    """The clusters that nodes had on their last streams, those still open included.

    A broken connection is noticed late, so that the last stream may not have ended yet.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._connected: dict[str, ClusterStream] = {}
        self._gone: dict[
            str, tuple[float, ClientClusters]
        ] = {}  # until when, the first to be forgotten first
        self._any_gone = Signal()

    def __len__(self) -> int:
        """The number of nodes that have gone and are remembered."""
        return len(self._gone)

    def on_open(self, node_id: str, stream: ClusterStream) -> ClientClusters:
        """Take note of a new stream; return the clusters the node had on the one before."""
        before = self._connected.get(node_id)
        self._connected[node_id] = stream
        _, gone = self._gone.pop(node_id, (0.0, NO_CLUSTERS))
        return gone if before is None else before.client_clusters()

    def on_close(self, node_id: str, stream: ClusterStream) -> None:
        """Take note that a stream is over."""
        if self._connected.get(node_id) is not stream:
            return
        del self._connected[node_id]
        if (kept := stream.client_clusters()).clusters:
            self._gone[node_id] = (self._clock.monotonic() + _KEPT_S, kept)
            if len(self._gone) > _REMEMBERED:
                del self._gone[next(iter(self._gone))]
            self._any_gone.set()

    async def run(self) -> None:
        """Forget nodes that did not come back in time, for ever."""
        while True:
            self._any_gone.clear()
            await self._any_gone.wait()
            while self._gone:
                until, _ = next(iter(self._gone.values()))
                await self._clock.sleep(until - self._clock.monotonic())
                self._forget()

    def _forget(self) -> None:
        now = self._clock.monotonic()
        for node_id, (until, _) in tuple(self._gone.items()):
            if until > now:
                return
            del self._gone[node_id]
