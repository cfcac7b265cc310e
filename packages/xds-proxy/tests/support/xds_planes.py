"""A real control plane, from snapshots, that serves one dialect alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress

import grpc.aio
from google.protobuf.message import Message

from xds_proxy.testing import ControlPlane, ControlPlaneStream, control_plane
from xds_server import Peer, Resource, ServerConfig, Snapshot, SnapshotStore, XdsServer
from xds_server.testing import admit_all

SOTW_METHOD, DELTA_METHOD = "StreamAggregatedResources", "DeltaAggregatedResources"


class SnapshotPlane:
    """Gives every client the resources that it was set last."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._store: SnapshotStore[None] = SnapshotStore(group_of=lambda _client: "all")
        self.server = XdsServer(
            self._store.generators(),
            admit=admit_all,
            needs_push=self._store.needs_push,
            config=ServerConfig(debounce_quiet_s=0.01, drain_time_s=0.0),
        )
        self.server.set_ready()
        self.streams = 0
        """How many there were."""

    @property
    def address(self) -> str:
        return self._plane.address

    def set(self, resources: Iterable[tuple[str, Message]]) -> None:
        """Give every client these resources, by their names."""
        packed = [Resource.pack(message, name=name) for name, message in resources]
        self.server.push_now(self._store.set("all", Snapshot.build(packed)))

    def nacks(self, type_url: str) -> list[str]:
        """Return why clients refuse the newest resources of a type."""
        return [
            status.nack.message
            for client in self.server.clients()
            if (status := client.types.get(type_url)) is not None and status.nack is not None
        ]

    async def _serve(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                stream = await self._plane.accept()
                self.streams += 1
                group.create_task(self._serve_stream(stream), name="stream")

    async def _serve_stream(self, stream: ControlPlaneStream) -> None:
        async def receive() -> bytes | None:
            with suppress(grpc.aio.UsageError):
                return await stream.receive()
            return None

        with suppress(grpc.aio.InternalError, asyncio.InvalidStateError):
            await self.server.serve_stream(
                Peer(address="test"), receive, stream.send, delta=stream.method == DELTA_METHOD
            )
        stream.end()


@asynccontextmanager
async def snapshot_plane(
    *methods: str, address: str = "127.0.0.1:0"
) -> AsyncIterator[SnapshotPlane]:
    """Run a control plane with these methods, of `SOTW_METHOD` and `DELTA_METHOD`."""
    async with control_plane(methods=methods, address=address) as plane:
        planes = SnapshotPlane(plane)
        async with planes.server.running():
            serving = asyncio.create_task(planes._serve(), name="streams of the control plane")
            try:
                yield planes
            finally:
                serving.cancel()
                with suppress(asyncio.CancelledError):
                    await serving
