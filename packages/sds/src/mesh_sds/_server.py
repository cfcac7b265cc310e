"""The secret server: an xDS server with one generator, one listener and one source."""

import asyncio
import logging
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import mesh_listening
import xds_server
from mesh_listening import (
    PeerCredentials,
    Port,
    Reason,
    check_credentials_supported,
)
from mesh_sds._config import SdsConfig
from mesh_sds._errors import SdsError, SocketUnusable
from mesh_sds.delivery._delivery_status import Delivery, Ledger
from mesh_sds.delivery._fetch import FetchHandler
from mesh_sds.delivery._generator import SecretGenerator, changed_names
from mesh_sds.delivery._pusher import Pusher
from mesh_sds.secrets._secrets import SecretSource
from xds_server import (
    Admission,
    Client,
    ClientStatus,
    ListenError,
    Node,
    Peer,
    PushRequest,
    ServerConfig,
    UnixListener,
    XdsServer,
    type_urls,
)

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from mesh_sds._metrics import Counts

log = logging.getLogger("mesh_sds")

# Ten certificates of the longest chains seen, and then some.
_MAX_MESSAGE_BYTES = 4 * 1024 * 1024
# As many names, and a node.
_MAX_REQUEST_BYTES = 2 * 1024 * 1024
# Four of the largest messages; beyond it the slowest subscribers are closed.
_MAX_UNTAKEN_BYTES = 16 * 1024 * 1024
_OTHERS_MAY_ENTER = 0o077
_OTHERS_MAY_REPLACE = 0o022


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """One stream: who, what it wants, and whether it took what it was sent.

    refusal: its words, while its last answer was no. refusals: how often it said no so far.
    process: who connected, by the kernel's word. secrets: by name; see `Delivery`.
    """

    id: str
    node_id: str
    delta: bool
    names: frozenset[str]
    in_sync: bool
    refusal: str | None
    refusals: int
    process: PeerCredentials | None = None
    secrets: tuple[Delivery, ...] = ()


class SdsServer:
    """A secret server that runs."""

    def __init__(
        self,
        server: XdsServer[PeerCredentials | None],
        *,
        socket_path: Path,
        ledger: Ledger,
        pusher: Pusher,
    ) -> None:
        self.socket_path = socket_path
        self._server = server
        self._ledger = ledger
        self._pusher = pusher
        self._port: Port | None = None

    def subscribers(self) -> tuple[Subscriber, ...]:
        """List every stream that asks for secrets now."""
        return tuple(map(self._subscriber, self._server.clients()))

    async def wait_until(self, holds: Callable[[tuple[Subscriber, ...]], bool]) -> None:
        """Wait until something holds for the subscribers; looked at whenever one moves on."""
        moved = asyncio.Event()
        with self._ledger.telling(lambda _client_id: moved.set()):
            while not holds(self.subscribers()):
                moved.clear()
                await moved.wait()

    @property
    def refusals(self) -> int:
        """How many responses subscribers refused since the start, those that left included."""
        return self._ledger.refusals

    @property
    def port(self) -> Port:
        """What counts the connections at the socket."""
        if self._port is None:
            raise RuntimeError("a secret server has a port from when it serves")
        return self._port

    @property
    def refused_connections(self) -> int:
        """How many connections were turned away for who their process is."""
        return self._port.refused.get(Reason.NOT_ALLOWED, 0) if self._port is not None else 0

    def _subscriber(self, client: ClientStatus) -> Subscriber:
        status = client.types.get(type_urls.SECRET)
        return Subscriber(
            id=client.id,
            node_id=client.node.id,
            delta=client.delta,
            names=status.names if status else frozenset(),
            in_sync=status.in_sync if status else True,
            refusal=status.nack.message if status and status.nack else None,
            refusals=status.nacks if status else 0,
            process=self._ledger.credentials(client.id),
            secrets=self._ledger.deliveries(client.id),
        )

    def _counts(self) -> "Counts":
        from mesh_sds._metrics import Counts

        subscribers = self.subscribers()
        return Counts(
            subscribers=len(subscribers),
            out_of_sync=sum(not subscriber.in_sync for subscriber in subscribers),
            refusals=self.refusals,
            refused_connections=self.refused_connections,
            overdue_bundles=self._pusher.overdue_bundles,
        )


@asynccontextmanager
async def serving(
    config: SdsConfig, source: SecretSource, *, registry: "CollectorRegistry | None" = None
) -> AsyncIterator[SdsServer]:
    """Serve the source's secrets on the Unix socket until the block is left.

    Raises SocketUnusable when the path can't hold our socket, SdsError when peers can't be checked.
    """
    _check_supported(config)
    failures = asyncio.Event()
    generator = SecretGenerator(source, provider=config.private_key_provider, failures=failures)
    ledger = Ledger()
    server: XdsServer[PeerCredentials | None] = XdsServer(
        {type_urls.SECRET: generator},
        admit=_admit,
        config=ServerConfig(
            max_message_bytes=_MAX_MESSAGE_BYTES,
            max_request_bytes=_MAX_REQUEST_BYTES,
            max_subscribed_names=config.max_names,
            send_timeout_s=config.send_timeout_s,
            max_pending_write_bytes=_MAX_UNTAKEN_BYTES,
            identifier="mesh-sds",
        ),
        needs_push=partial(_needs_push, ledger),
        observer=ledger,
        registry=registry,
    )
    server.mark_ready()
    pusher = Pusher(
        server,
        generator,
        ledger=ledger,
        failures=failures,
        bundle_ack_timeout_s=config.bundle_ack_timeout_s,
    )
    running = SdsServer(server, socket_path=config.socket_path, ledger=ledger, pusher=pusher)
    async with AsyncExitStack() as stack:
        if registry is not None:
            from mesh_sds._metrics import register

            stack.callback(register(registry, running._counts))
        running._port = await stack.enter_async_context(_listening(config, server))
        _warn_of_open_directory(config)
        await stack.enter_async_context(_running(pusher, source))
        yield running


@asynccontextmanager
async def _running(pusher: Pusher, source: SecretSource) -> AsyncIterator[None]:
    tasks = [
        asyncio.create_task(pusher.follow(source), name="secret changes"),
        asyncio.create_task(pusher.retry_failing(), name="secret retries"),
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def _check_supported(config: SdsConfig) -> None:
    if config.allow is not None:
        try:
            check_credentials_supported()
        except mesh_listening.ListenError as error:
            raise SdsError(f"{error}; set allow=None") from error


@asynccontextmanager
async def _listening(
    config: SdsConfig, server: XdsServer[PeerCredentials | None]
) -> AsyncIterator[Port]:
    listener = UnixListener(
        path=config.socket_path, mode=config.socket_mode, allow=config.allow, limits=config.limits
    )
    served = xds_server.serving(server, [listener], extra_handlers=[FetchHandler(server)])
    async with AsyncExitStack() as stack:
        try:
            bound = await stack.enter_async_context(served)
        except ListenError as error:
            raise SocketUnusable(str(error)) from error
        yield bound.ports[0]


def _warn_of_open_directory(config: SdsConfig) -> None:
    """Tell of a directory that others may enter, or put a socket of their own in.

    Not an error and not changed: a directory that was handed to us, such as a mounted volume, may
    not be ours to close.
    """
    directory = config.socket_path.parent
    mode = stat.S_IMODE(directory.stat().st_mode)
    if mode & (_OTHERS_MAY_ENTER if config.allow is None else _OTHERS_MAY_REPLACE):
        log.warning(
            "directory of the secret socket is open to other users",
            extra={"directory": str(directory), "mode": f"{mode:04o}", "expected": "0700"},
        )


async def _admit(node: Node, peer: Peer) -> Admission[PeerCredentials | None]:
    """Let in whoever got as far: the socket's mode and its check of peers have decided."""
    del node
    return Admission(context=peer.process)


def _needs_push(
    ledger: Ledger, client: Client[PeerCredentials | None], request: PushRequest
) -> bool:
    return not request.configs_updated or ledger.asks_for(client.id, changed_names(request))
