"""The secret server: an xDS server with one generator, one listener and one source."""

import asyncio
import logging
import stat
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry

import xds_server
from mesh_sds._errors import SocketUnusable
from mesh_sds._generator import SecretGenerator, push_requests
from mesh_sds._secrets import SecretSource
from xds_server import (
    Admission,
    ClientStatus,
    ListenError,
    Node,
    Peer,
    ServerConfig,
    UnixListener,
    XdsServer,
    type_urls,
)

log = logging.getLogger("mesh_sds")

# Ten certificates of the longest chains seen, and then some.
_MAX_MESSAGE_BYTES = 4 * 1024 * 1024
_RESUBSCRIBE_AFTER_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SdsConfig:
    """Where to serve. socket_path: its directory is made with mode 0700 if it is not there."""

    socket_path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """One stream: what it wants, and whether it took what it was sent.

    refusal: its words, while its last answer was no. refusals: how often it said no so far.
    """

    id: str
    node_id: str
    delta: bool
    names: frozenset[str]
    in_sync: bool
    refusal: str | None
    refusals: int


class SdsServer:
    """A secret server that runs."""

    def __init__(self, server: XdsServer[None], *, socket_path: Path) -> None:
        self._server = server
        self.socket_path = socket_path

    def subscribers(self) -> tuple[Subscriber, ...]:
        """List every stream that asks for secrets now."""
        return tuple(map(_subscriber, self._server.clients()))


@asynccontextmanager
async def serving(
    config: SdsConfig, source: SecretSource, *, registry: CollectorRegistry | None = None
) -> AsyncIterator[SdsServer]:
    """Serve the source's secrets on the Unix socket until the block is left.

    Raises SocketUnusable when the path can't hold our socket.
    """
    server: XdsServer[None] = XdsServer(
        {type_urls.SECRET: SecretGenerator(source)},
        admit=_admit,
        config=ServerConfig(max_message_bytes=_MAX_MESSAGE_BYTES, identifier="mesh-sds"),
        registry=registry,
    )
    server.mark_ready()
    async with AsyncExitStack() as stack:
        listener = UnixListener(path=config.socket_path, mode=0o600)
        try:
            await stack.enter_async_context(xds_server.serving(server, [listener]))
        except ListenError as error:
            raise SocketUnusable(str(error)) from error
        _warn_of_open_directory(config.socket_path.parent)
        pushing = asyncio.create_task(_push_changes(server, source), name="secret changes")
        try:
            yield SdsServer(server, socket_path=config.socket_path)
        finally:
            pushing.cancel()
            await asyncio.wait([pushing])


def _warn_of_open_directory(directory: Path) -> None:
    """Tell of a directory that others may enter: then only the socket's own mode guards it.

    Not an error and not changed: a directory that was handed to us, such as a mounted volume, may
    not be ours to close.
    """
    mode = stat.S_IMODE(directory.stat().st_mode)
    if mode & 0o077:
        log.warning(
            "directory of the secret socket is open to other users",
            extra={"directory": str(directory), "mode": f"{mode:04o}", "expected": "0700"},
        )


async def _push_changes(server: XdsServer[None], source: SecretSource) -> None:
    """Push for as long as the source lives; a source that fails is subscribed to again.

    Subscribing anew loses nothing: a source begins with what it has.
    """
    while True:
        try:
            async with AsyncExitStack() as stack:
                changes = source.changes()
                if (close := getattr(changes, "aclose", None)) is not None:
                    stack.push_async_callback(close)
                async for names in changes:
                    for request in push_requests(source, names):
                        server.push_now(request)
            log.warning("secret source ended, secrets stay as they are")
            return
        except Exception:
            log.exception("secret source failed, subscribing again")
        await asyncio.sleep(_RESUBSCRIBE_AFTER_S)


async def _admit(node: Node, peer: Peer) -> Admission[None]:
    """Let everybody in who can open the socket: its directory is the guard."""
    del node, peer
    return Admission(context=None)


def _subscriber(client: ClientStatus) -> Subscriber:
    status = client.types.get(type_urls.SECRET)
    return Subscriber(
        id=client.id,
        node_id=client.node.id,
        delta=client.delta,
        names=status.names if status else frozenset(),
        in_sync=status.in_sync if status else True,
        refusal=status.nack.message if status and status.nack else None,
        refusals=status.nacks if status else 0,
    )
