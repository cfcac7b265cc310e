"""The beginning of an agent with an Envoy: all that needs neither gRPC nor x509, and then Envoy.

Envoy takes a tenth of a second until it connects to the agent, and so do these libraries until they
can be used. So Envoy is started before they are loaded. The sockets that it connects to listen
already; what it says there waits in the kernel until the parts serve. Reading order is start order.
"""

import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec

import envoy_supervisor
import mesh_sds
import xds_proxy
from mesh_agent._common_start import CommonStart, Conditions, common_start
from mesh_agent._config import AgentConfig
from mesh_agent.envoy._machine_place import MachinePlace, machine_place
from mesh_listening import ListenError, SocketFile, inspect_socket_path, listening_at


class StartedEnvoy(msgspec.Struct, frozen=True, kw_only=True):
    """An Envoy that was started, and what began before it.

    common: stop signals, readiness and the status server.
    place: where the machine is, for Envoys that are started later.
    configuration, secrets: the sockets of the relay and of the secret server; None for secrets if
    that socket is not ours, or not yet.
    """

    common: CommonStart
    place: MachinePlace
    envoy: envoy_supervisor.Envoy
    configuration: socket.socket
    secrets: socket.socket | None
    _life: AsyncExitStack

    async def stop(self) -> None:
        """Drain Envoy and end it; nothing happens the second time."""
        await self._life.aclose()


@asynccontextmanager
async def envoy_started(
    config: AgentConfig, conditions: Conditions | None = None
) -> AsyncIterator[StartedEnvoy]:
    """Begin, and start Envoy; it is stopped when the block ends, unless it was before.

    Raises before there is an Envoy: `mesh_status_server.ListenError`, `xds_proxy.SocketError` if
    Envoy's socket can't be created; and the errors of `envoy_supervisor.running`.
    """
    async with AsyncExitStack() as stack:
        place = await stack.enter_async_context(machine_place(config.place))
        common = await stack.enter_async_context(common_start(config, conditions))
        configuration = _listening_for_configuration(config, stack)
        secrets = _listening_for_secrets(config.secrets, stack)
        await place.wait_first_answer()
        life = await stack.enter_async_context(AsyncExitStack())
        envoy = await life.enter_async_context(
            envoy_supervisor.running(place.applied(config.envoy))
        )
        yield StartedEnvoy(
            common=common,
            place=place,
            envoy=envoy,
            configuration=configuration,
            secrets=secrets,
            _life=life,
        )


def _listening_for_configuration(config: AgentConfig, stack: AsyncExitStack) -> socket.socket:
    relay = config.relay
    try:
        return stack.enter_context(listening_at(relay.socket_path, mode=relay.socket_mode))
    except ListenError as error:
        raise xds_proxy.SocketError(str(error)) from error


def _listening_for_secrets(
    config: mesh_sds.SdsConfig, stack: AsyncExitStack
) -> socket.socket | None:
    """Listen, if no other process does; that process, or what is in the way, is reported later."""
    path = config.socket_path
    if path.name != mesh_sds.DEFAULT_SOCKET_NAME:  # another process is to serve it
        return None
    try:
        if inspect_socket_path(path) not in (SocketFile.ABSENT, SocketFile.DEAD):
            return None
        return stack.enter_context(listening_at(path, mode=config.socket_mode))
    except ListenError:
        return None
