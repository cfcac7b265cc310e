"""gRPC applications that take their configuration themselves, beside an Envoy; as in Istio.

They have a bootstrap file and a relay of their own: at Envoy's socket the newest stream leads, and
the agent would ask for its own types as a gRPC application, and save what that has for an Envoy.
The relay costs nothing before the first of them calls: until then the socket only listens.
"""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from msgspec import structs

import xds_proxy
from mesh_agent._config import AgentConfig
from mesh_agent._errors import BootstrapNotWritten
from mesh_agent.envoy._machine_place import MachinePlace
from mesh_agent.identity._learned_roots import CONFIGURATION, further_roots
from mesh_agent.identity._own_certificate import own_certificate
from mesh_agent.identity._workload_secrets import ForeignSecrets, OwnSecrets
from mesh_agent.proxyless._grpc_bootstrap import (
    files_needed,
    grpc_bootstrap,
    keep_refresh_interval,
    write_grpc_bootstrap,
)
from mesh_agent.readiness._grpc_files import watch_files
from mesh_identity import LearnedRoots
from mesh_lifecycle import Condition, in_background
from mesh_listening import ListenError, listening_at

log = logging.getLogger(__name__)


@asynccontextmanager
async def serving_grpc(
    config: AgentConfig,
    *,
    place: MachinePlace,
    secrets: OwnSecrets | ForeignSecrets,
    learned: LearnedRoots | None,
    ready: Condition | None,
) -> AsyncIterator[None]:
    """Serve gRPC applications for as long as the block runs.

    ready: set while their files are there; None where they were not asked for. Only where they were
    asked for, raises `xds_proxy.SocketError` or `BootstrapNotWritten` if they can't be served.
    """
    beside = config.grpc_beside_envoy
    if beside is None:
        yield
        return
    placed = structs.replace(config, envoy=place.applied(config.envoy), relay=beside.relay)
    async with AsyncExitStack() as stack:
        try:
            listening = _listening(beside.relay, stack)
            await write_grpc_bootstrap(beside.bootstrap, grpc_bootstrap(placed))
        except (xds_proxy.SocketError, BootstrapNotWritten) as error:
            if beside.is_asked_for:
                raise
            log.info("gRPC applications are not served", extra={"reason": str(error)})
        else:
            relaying = _relaying_when_called(beside.relay, listening, secrets, learned)
            await stack.enter_async_context(in_background(relaying, name="grpc relay"))
            if isinstance(secrets, OwnSecrets) and config.output is not None:
                following = keep_refresh_interval(placed, beside.bootstrap, secrets.certificates)
                await stack.enter_async_context(in_background(following, name="grpc bootstrap"))
        if ready is not None:
            watching = watch_files(files_needed(config, beside.bootstrap), ready)
            await stack.enter_async_context(in_background(watching, name="files"))
        yield


def _listening(relay: xds_proxy.RelayConfig, stack: AsyncExitStack) -> socket.socket:
    try:
        return stack.enter_context(listening_at(relay.socket_path, mode=relay.socket_mode))
    except ListenError as error:
        raise xds_proxy.SocketError(str(error)) from error


async def _relaying_when_called(
    config: xds_proxy.RelayConfig,
    listening: socket.socket,
    secrets: OwnSecrets | ForeignSecrets,
    learned: LearnedRoots | None,
) -> None:
    await _wait_called(listening)
    log.info(
        "a gRPC application takes its configuration", extra={"socket": str(config.socket_path)}
    )
    async with xds_proxy.relaying(
        config,
        further_roots=further_roots(learned, CONFIGURATION),
        own_certificate=own_certificate(secrets),
        listening=listening,
    ):
        await asyncio.Event().wait()


async def _wait_called(listening: socket.socket) -> None:
    """Wait until a connection is there to be accepted."""
    loop = asyncio.get_running_loop()
    called = asyncio.Event()
    loop.add_reader(listening, called.set)
    try:
        await called.wait()
    finally:
        loop.remove_reader(listening)
