"""The secret server: an xDS server with one generator, one listener and one source."""

import asyncio
import logging
import socket
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

import mesh_listening
import xds_server
from mesh_lifecycle import in_background
from mesh_listening import (
    PeerCredentials,
    Port,
    Reason,
    check_credentials_supported,
)
from mesh_sds._config import SdsConfig
from mesh_sds._errors import SdsError, SocketUnusable
from mesh_sds.delivery._delivery_status import Delivery, DeliveryStatus
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

# More than ten certificates with the longest chains seen.
_MAX_MESSAGE_BYTES = 4 * 1024 * 1024
# Enough for max_names names, and a node.
_MAX_REQUEST_BYTES = 2 * 1024 * 1024
# Four of the largest messages; beyond it the slowest subscribers are closed.
_MAX_PENDING_BYTES = 16 * 1024 * 1024
_MAX_KEPT_BYTES = 64 * 1024 * 1024
"""For names and nodes of all subscribers; half of it of one process or other user. An Envoy has a
stream for each of its secrets, with its node on each: some 20 kB."""
_OTHERS_MAY_ENTER = 0o077
_OTHERS_MAY_REPLACE = 0o022


class Subscriber(msgspec.Struct, frozen=True, kw_only=True):
    """One stream that asks for secrets, and its delivery status.

    in_sync: whether it accepted the newest version of all it was sent. refusal: the error message
    of its last answer, if that was a refusal. refusals: their number so far. process: the
    credentials of the process that connected, known by the kernel. secrets: by name.
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
    """A running secret server."""

    def __init__(
        self,
        server: XdsServer[PeerCredentials | None],
        *,
        socket_path: Path,
        delivery_status: DeliveryStatus,
        pusher: Pusher,
    ) -> None:
        self.socket_path = socket_path
        self._server = server
        self._delivery_status = delivery_status
        self._pusher = pusher
        self._port: Port | None = None

    def subscribers(self) -> tuple[Subscriber, ...]:
        """Return every stream that asks for secrets now."""
        return tuple(map(self._subscriber, self._server.clients()))

    async def wait_until(self, holds: Callable[[tuple[Subscriber, ...]], bool]) -> None:
        """Wait until `holds` is true of the subscribers; called whenever one's status changes."""
        changed = asyncio.Event()
        with self._delivery_status.listener(lambda _client_id: changed.set()):
            while not holds(self.subscribers()):
                changed.clear()
                await changed.wait()

    @property
    def refusals(self) -> int:
        """The number of responses refused since the start, also by streams that are gone."""
        return self._delivery_status.refusals

    @property
    def port(self) -> Port:
        """The listening socket, which counts its connections."""
        if self._port is None:
            raise RuntimeError("the secret server does not serve yet: use it inside `serving`")
        return self._port

    @property
    def refused_connections(self) -> int:
        """The number of connections refused because their process is not allowed."""
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
            process=self._delivery_status.credentials(client.id),
            secrets=self._delivery_status.deliveries(client.id),
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
    config: SdsConfig,
    source: SecretSource,
    *,
    registry: "CollectorRegistry | None" = None,
    listening: socket.socket | None = None,
) -> AsyncIterator[SdsServer]:
    """Serve the source's secrets on the Unix socket until the block is left.

    listening: a socket that listens at `config.socket_path` already; the caller closes it.
    Raises SocketUnusable when the path can't hold the socket, SdsError when peers can't be checked.
    """
    _check_supported(config)
    failures = asyncio.Event()
    generator = SecretGenerator(source, provider=config.private_key_provider, failures=failures)
    delivery_status = DeliveryStatus()
    server: XdsServer[PeerCredentials | None] = XdsServer(
        {type_urls.SECRET: generator},
        admit=_admit,
        config=ServerConfig(
            max_message_bytes=_MAX_MESSAGE_BYTES,
            max_request_bytes=_MAX_REQUEST_BYTES,
            max_subscribed_names=config.max_names,
            send_timeout_s=config.send_timeout_s,
            max_pending_write_bytes=_MAX_PENDING_BYTES,
            max_pending_write_bytes_per_identity=_MAX_PENDING_BYTES // 2,
            max_kept_bytes=_MAX_KEPT_BYTES,
            max_kept_bytes_per_identity=_MAX_KEPT_BYTES // 2,
            max_kept_bytes_per_stream=_MAX_KEPT_BYTES // 8,
            identifier="mesh-sds",
        ),
        needs_push=partial(_needs_push, delivery_status),
        observer=delivery_status,
        registry=registry,
    )
    server.set_ready()
    pusher = Pusher(
        server,
        generator,
        delivery_status=delivery_status,
        failures=failures,
        bundle_ack_timeout_s=config.bundle_ack_timeout_s,
    )
    running = SdsServer(
        server, socket_path=config.socket_path, delivery_status=delivery_status, pusher=pusher
    )
    async with AsyncExitStack() as stack:
        if registry is not None:
            from mesh_sds._metrics import register

            stack.callback(register(registry, running._counts))
        running._port = await stack.enter_async_context(_listening(config, server, listening))
        _warn_of_open_directory(config)
        await stack.enter_async_context(_running(pusher, source))
        yield running


@asynccontextmanager
async def _running(pusher: Pusher, source: SecretSource) -> AsyncIterator[None]:
    async with (
        in_background(pusher.follow(source), name="secret changes"),
        in_background(pusher.retry_failing(), name="secret retries"),
    ):
        yield


def _check_supported(config: SdsConfig) -> None:
    if config.allow is not None:
        try:
            check_credentials_supported()
        except mesh_listening.ListenError as error:
            raise SdsError(f"{error}; set allow=None") from error


@asynccontextmanager
async def _listening(
    config: SdsConfig,
    server: XdsServer[PeerCredentials | None],
    listening: socket.socket | None,
) -> AsyncIterator[Port]:
    listener = UnixListener(
        path=config.socket_path,
        mode=config.socket_mode,
        allow=config.allow,
        limits=config.limits,
        listening=listening,
    )
    served = xds_server.serving(server, [listener], extra_handlers=[FetchHandler(server)])
    async with AsyncExitStack() as stack:
        try:
            bound = await stack.enter_async_context(served)
        except ListenError as error:
            raise SocketUnusable(str(error)) from error
        yield bound.ports[0]


def _warn_of_open_directory(config: SdsConfig) -> None:
    """Warn of a directory that other users may enter, or may put a socket of their own into.

    It is no error, and the mode stays: the directory may be a volume that was mounted for us.
    """
    directory = config.socket_path.parent
    mode = stat.S_IMODE(directory.stat().st_mode)
    if mode & (_OTHERS_MAY_ENTER if config.allow is None else _OTHERS_MAY_REPLACE):
        log.warning(
            "directory of the secret socket is open to other users",
            extra={"directory": str(directory), "mode": f"{mode:04o}", "expected": "0700"},
        )


async def _admit(node: Node, peer: Peer) -> Admission[PeerCredentials | None]:
    """Admit every client: the socket's mode and its check of peers have decided already."""
    del node
    return Admission(context=peer.process)


def _needs_push(
    delivery_status: DeliveryStatus, client: Client[PeerCredentials | None], request: PushRequest
) -> bool:
    return not request.configs_updated or delivery_status.may_want(
        client.id, changed_names(request)
    )
