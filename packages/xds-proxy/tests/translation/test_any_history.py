"""Through a translator a client has what the control plane has, after whatever happened.

The control plane is a real one of one dialect, the client a model of the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
from envoy.config.cluster.v3 import cluster_pb2
from envoy.service.discovery.v3 import discovery_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from mesh_testkit import until
from model_envoys import (
    BAD,
    CLUSTER,
    COMPLETE,
    ENDPOINT,
    LISTENER,
    ROUTE,
    SCOPED_ROUTE,
    WILDCARD,
    DeltaEnvoy,
    ModelEnvoy,
    SotwEnvoy,
)
from xds_proxy.protocol._dialect import DELTA, STATE_OF_THE_WORLD
from xds_proxy.translation._translator import translator
from xds_server import Resource, ServerConfig, Snapshot, SnapshotStore, XdsServer
from xds_server import testing as control_planes

TYPES = (CLUSTER, ENDPOINT, LISTENER, ROUTE, SCOPED_ROUTE)
NAMES = ("a", "b", "c")
CONFIG = ServerConfig(
    debounce_quiet_s=0.0, debounce_maximum_s=0.0, order_wait_s=0.01, drain_time_s=0.0
)

Action = tuple[str, ...]

_names = st.sampled_from(NAMES)


def _happenings(types: list[str]) -> st.SearchStrategy[list[Action]]:
    """Return lists of actions on a few types, so that these have to do with each other."""
    of_type = st.sampled_from(types)
    wildcards = [each for each in types if each not in (ENDPOINT, ROUTE)]
    kinds: list[st.SearchStrategy[Action]] = [
        st.tuples(st.just("put"), of_type, _names, st.sampled_from(["1", "2", "3", "bad"])),
        st.tuples(st.just("remove"), of_type, _names),
        st.tuples(st.just("subscribe"), of_type, _names),
        st.tuples(st.just("subscribe"), of_type, _names, _names),
        st.tuples(st.just("unsubscribe"), of_type, _names),
        st.tuples(st.just("yield"), st.sampled_from(["1", "5", "30"])),
        st.tuples(st.just("pause")),
        st.tuples(st.just("pause")),
        st.tuples(st.just("reconnect")),
    ]
    if wildcards:
        kinds.append(st.tuples(st.just("subscribe"), st.sampled_from(wildcards)))
        kinds.append(st.tuples(st.just("subscribe"), st.sampled_from(wildcards), st.just(WILDCARD)))
    begun = [
        *(("put", type_url, name, "1") for type_url in types for name in ("a", "b")),
        *(("subscribe", type_url) for type_url in wildcards),
        *(("subscribe", type_url, "a", "b") for type_url in types if type_url not in wildcards),
        ("pause",),
    ]
    return st.tuples(
        st.sampled_from([[], begun]), st.lists(st.one_of(kinds), min_size=4, max_size=20)
    ).map(lambda parts: [*parts[0], *parts[1]])


_histories = st.lists(st.sampled_from(TYPES), min_size=1, max_size=2, unique=True).flatmap(
    _happenings
)


def body(type_url: str, name: str, content: str) -> bytes:
    """Return a serialised resource; of clusters some take their endpoints over xDS."""
    if type_url == CLUSTER and name in ("a", "b"):
        cluster = cluster_pb2.Cluster(name=name, type=cluster_pb2.Cluster.EDS)
        cluster.eds_cluster_config.eds_config.ads.SetInParent()
        start: bytes = cluster.SerializeToString()
    else:
        start = discovery_pb2.ResourceName(name=name).SerializeToString()
    marker = BAD if content == "bad" else content.encode()
    return start + bytes((0xFA, 0x7F, len(marker))) + marker  # a field that no schema has


@dataclass
class Wanted:
    """The names that the client asks for of one type."""

    names: set[str] = field(default_factory=set)
    everything: bool = False

    def covers(self, name: str) -> bool:
        return self.everything or name in self.names


class History:
    """A control plane, a translator and a client, and all that happens to them."""

    def __init__(self, *, delta_client: bool, all_or_nothing: bool) -> None:
        self._delta_client = delta_client
        self._store: SnapshotStore[None] = SnapshotStore()
        self._server = XdsServer(
            self._store.generators(*TYPES),
            admit=control_planes.admit_all,
            needs_push=self._store.needs_push,
            config=CONFIG,
        )
        self._server.set_ready()
        self._resources: dict[tuple[str, str], str] = {}
        self._wanted: dict[str, Wanted] = {}
        self._requests: asyncio.Queue[bytes] = asyncio.Queue()
        make = DeltaEnvoy if delta_client else SotwEnvoy
        self.client: ModelEnvoy = make(self._requests.put_nowait, all_or_nothing=all_or_nothing)
        self._connections = 0
        self._again = asyncio.Event()

    async def run(self, actions: list[Action]) -> None:
        async with self._server.running():
            self._push()
            connecting = asyncio.create_task(self._connect())
            try:
                for name, *arguments in actions:
                    await self._act(name, *arguments)
                await self._settle()
            finally:
                connecting.cancel()
                with suppress(asyncio.CancelledError):
                    await connecting

    async def _act(self, name: str, *arguments: str) -> None:
        match name, arguments:
            case "put", [type_url, resource, content]:
                self._resources[type_url, resource] = content
                self._push()
            case "remove", [type_url, resource]:
                self._resources.pop((type_url, resource), None)
                self._push()
            case "subscribe", [type_url, *names]:
                if not names and type_url in self._wanted:
                    names = [WILDCARD]  # only a type's first request asks for all by no name
                wanted = self._wanted.setdefault(type_url, Wanted())
                wanted.names.update(name for name in names if name != WILDCARD)
                wanted.everything |= not names or WILDCARD in names
                self.client.subscribe(type_url, *names)
            case "unsubscribe", [type_url, resource] if type_url in self._wanted:
                if resource in self._wanted[type_url].names:
                    self._wanted[type_url].names.discard(resource)
                    self.client.unsubscribe(type_url, resource)
            case "yield", [times]:
                for _ in range(int(times)):
                    await asyncio.sleep(0)
            case "pause", []:
                await asyncio.sleep(0.003)  # mostly, all is answered by then
            case "reconnect", []:
                self._again.set()
                await asyncio.sleep(0)
            case _:
                pass

    async def _settle(self) -> None:
        """Make all resources good, and different from what was sent before; wait for the client."""
        for key in self._resources:
            self._resources[key] = f"good {key[1]}"
        self._push()
        await until(
            lambda: self._found() == self._expected(),
            what=f"the client to have {self._expected()}",
            seen=self._found,
        )
        for _ in range(50):
            await asyncio.sleep(0)
        assert self._found() == self._expected()

        expected = self._expected()

        def in_sync() -> bool:
            # A refusal stays in force if the client asks for nothing that would follow it.
            return all(
                (status.in_sync and status.nack is None) or not expected.get(status.type_url)
                for client in self._server.clients()
                for status in client.types.values()
            )

        await until(in_sync, what="the control plane to know", seen=self._server.clients)

    def _expected(self) -> dict[str, dict[str, bytes]]:
        return {
            type_url: {
                name: body(type_url, name, content)
                for (of_type, name), content in self._resources.items()
                if of_type == type_url and wanted.covers(name)
            }
            for type_url, wanted in self._wanted.items()
        }

    def _found(self) -> dict[str, dict[str, bytes]]:
        """Return what the client has.

        Without what only a delta control plane says to be gone, and only a delta client hears.
        """
        return {
            type_url: {
                name: value
                for name, value in self.client.have.get(type_url, {}).items()
                if type_url in COMPLETE or wanted.everything or (type_url, name) in self._resources
            }
            for type_url, wanted in self._wanted.items()
        }

    def _push(self) -> None:
        resources = []
        for (type_url, name), content in self._resources.items():
            data = body(type_url, name, content)
            version = f"{name}-{content}"
            resources.append(Resource(name=name, type_url=type_url, body=data, version=version))
        self._server.push_now(self._store.set("model", Snapshot.build(resources)))

    async def _connect(self) -> None:
        while True:
            self._again.clear()
            async with self._stream() as streaming:
                again = asyncio.create_task(self._again.wait())
                await asyncio.wait([streaming, again], return_when=asyncio.FIRST_COMPLETED)
                again.cancel()
                if streaming.done():
                    streaming.result()
            self._requests = asyncio.Queue()
            self.client.reconnect(self._requests.put_nowait)

    @asynccontextmanager
    async def _stream(self) -> AsyncIterator[asyncio.Task[None]]:
        upstream = not self._delta_client
        async with control_planes.in_memory(self._server, delta=upstream) as wire:
            task = asyncio.create_task(self._translate(wire, self._requests))
            try:
                yield task
            finally:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _translate(
        self, wire: control_planes.MemoryWire, requests: asyncio.Queue[bytes]
    ) -> None:
        dialects = (DELTA, STATE_OF_THE_WORLD)
        envoy, plane = dialects if self._delta_client else reversed(dialects)
        translating = translator(envoy=envoy, control_plane=plane, max_bytes=1 << 20)

        async def upwards() -> None:
            while True:
                for message in translating.request(await requests.get()):
                    await wire.send(message)

        async def downwards() -> None:
            while True:
                response = translating.response(await wire.receive())
                for message in translating.take_owed():
                    await wire.send(message)
                if response is not None:
                    self.client.response(response)

        async with asyncio.TaskGroup() as group:
            group.create_task(upwards())
            group.create_task(downwards())


_CLIENTS = pytest.mark.parametrize(
    "delta_client", [False, True], ids=["sotw client", "delta client"]
)


@_CLIENTS
@given(actions=_histories, all_or_nothing=st.booleans())
@settings(max_examples=30)
def test_a_client_has_what_the_control_plane_of_the_other_dialect_has(
    *, delta_client: bool, actions: list[Action], all_or_nothing: bool
) -> None:
    asyncio.run(History(delta_client=delta_client, all_or_nothing=all_or_nothing).run(actions))


@pytest.mark.slow
@_CLIENTS
@given(actions=_histories, all_or_nothing=st.booleans())
@settings(max_examples=300)
def test_a_client_has_what_the_control_plane_has_after_many_more_histories(
    *, delta_client: bool, actions: list[Action], all_or_nothing: bool
) -> None:
    asyncio.run(History(delta_client=delta_client, all_or_nothing=all_or_nothing).run(actions))
