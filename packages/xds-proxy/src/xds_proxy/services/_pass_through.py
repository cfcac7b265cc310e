"""Calls of other services that Envoy makes at the relay's address, such as load reports (LRS).

Each call is passed to the control plane as it is: one call there for each of Envoy's, and when one
side ends, so does the other. Streams and single calls are the same here, as they are on the wire:
messages in both directions, and an end of each.

A side that does not read makes the other one wait, as if both were connected directly; at most one
message a direction is held. One that has not read for too long loses the call.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import grpc
import grpc.aio

from mesh_listening import disconnect
from xds_proxy._config import RelayConfig
from xds_proxy.protocol._dialect import SERVICE as ADS
from xds_proxy.status._counters import Counters
from xds_proxy.streams._ends import End, Side
from xds_proxy.upstream._call import ControlPlaneCall
from xds_proxy.upstream._upstream_error import UpstreamError
from xds_proxy.writing._message_writer import MessageWriter, WriteBounds

if TYPE_CHECKING:
    GenericRpcHandler = grpc.GenericRpcHandler[bytes, bytes]
else:  # gRPC's stubs know type parameters that its classes do not have.
    GenericRpcHandler = grpc.GenericRpcHandler

log = logging.getLogger("xds_proxy")

OpenCall = Callable[[str], AbstractAsyncContextManager[ControlPlaneCall]]
"""Calls a method of the control plane, by its path. Raises UpstreamError."""

CLIENT_STATUS = "envoy.service.status.v3.ClientStatusDiscoveryService"
_LONGEST_DETAILS = 1024


class PassThrough(GenericRpcHandler):
    """Handles the calls of the services in `RelayConfig.passed_services`."""

    def __init__(
        self, config: RelayConfig, *, open_call: OpenCall, bounds: WriteBounds, counters: Counters
    ) -> None:
        self._config = config
        self._open_call = open_call
        self._bounds = bounds
        self._counters = counters
        self.open = 0
        """The calls that are open."""

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        path = handler_call_details.method or ""
        if not self._passes(path):
            return None

        async def serve(_: object, envoy: grpc.aio.ServicerContext[bytes, bytes]) -> None:
            await self._serve(path, envoy)

        return grpc.stream_stream_rpc_method_handler(serve)

    def _passes(self, path: str) -> bool:
        service = path.removeprefix("/").partition("/")[0]
        return service.startswith(self._config.passed_services) and service not in (
            ADS,
            CLIENT_STATUS,
        )

    async def _serve(self, path: str, envoy: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        most = self._config.max_passed_calls
        if self.open >= most:
            details = f"{most} calls are passed to the control plane already, which is the most"
            await envoy.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, details)
        self.open += 1
        self._counters.passed_calls += 1
        try:
            async with self._open_call(path) as control_plane:
                end = await PassedCall(envoy, control_plane, self._bounds, self._counters).run()
        except UpstreamError as error:
            details = f"cannot reach the control plane: {error.reason}"
            end = End(by=Side.CONTROL_PLANE, code=error.code, details=details)
        finally:
            self.open -= 1
        log.debug(
            "a passed call ended",
            extra={"method": path, "by": end.by.value, "status": end.code.name},
        )
        if end.code is not grpc.StatusCode.OK:
            await envoy.abort(end.code, end.details[:_LONGEST_DETAILS])


class PassedCall:
    """One call of Envoy's and the control plane's end of it."""

    def __init__(
        self,
        envoy: grpc.aio.ServicerContext[bytes, bytes],
        control_plane: ControlPlaneCall,
        bounds: WriteBounds,
        counters: Counters,
    ) -> None:
        self._envoy = envoy
        self._control_plane = control_plane
        self._counters = counters
        self._to_control_plane = MessageWriter(bounds.to_control_plane, self._control_plane_overdue)
        self._to_envoy = MessageWriter(bounds.to_envoys, self._envoy_overdue)
        self._ended: asyncio.Future[End] = asyncio.get_running_loop().create_future()

    async def run(self) -> End:
        """Pass messages until the call has ended, and return its end.

        Nothing is pending to Envoy then: gRPC can't send a status behind a pending message.
        """
        try:
            async with asyncio.TaskGroup() as group:
                up = group.create_task(self._pass_requests(), name="xds-proxy: passed requests")
                down = group.create_task(self._pass_responses(), name="xds-proxy: passed responses")
                end = await asyncio.shield(self._ended)
                up.cancel()
                if not self._to_envoy.is_writing:
                    down.cancel()
        finally:
            self._to_control_plane.forget()
            self._to_envoy.forget()
        return end

    async def _pass_requests(self) -> None:
        try:
            while isinstance(request := await self._read_envoy(), bytes):
                await self._to_control_plane.write(self._control_plane, request)
            await self._control_plane.done_writing()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return  # the call has ended; the loop of responses learns how

    async def _pass_responses(self) -> None:
        try:
            while isinstance(response := await self._read_control_plane(), bytes):
                await self._to_envoy.write(self._envoy, response)
                if self._ended.done():
                    return
        except grpc.aio.InternalError:  # Envoy's connection has ended
            self._end(End(by=Side.ENVOY, code=grpc.StatusCode.CANCELLED))
            return
        code = await self._control_plane.code()
        details = await self._control_plane.details() or ""
        self._end(End(by=Side.CONTROL_PLANE, code=code, details=details))

    async def _read_envoy(self) -> object:
        return await self._envoy.read()

    async def _read_control_plane(self) -> object:
        try:
            return await self._control_plane.read()
        except grpc.aio.AioRpcError:
            return None

    def _end(self, end: End) -> None:
        if not self._ended.done():
            self._ended.set_result(end)

    def _control_plane_overdue(self, waited_s: float, size: int, reason: str) -> None:
        self._counters.control_plane_not_reading += 1
        details = f"the control plane has not taken a message of {size} bytes for {waited_s:.0f} s"
        log.warning("a passed call is ended", extra={"reason": f"{details}: {reason}"})
        self._end(
            End(by=Side.CONTROL_PLANE, code=grpc.StatusCode.UNAVAILABLE, details=details),
        )

    def _envoy_overdue(self, waited_s: float, size: int, reason: str) -> None:
        """End the connection; a status could not be sent behind the message that is not read."""
        self._counters.envoy_not_reading += 1
        details = f"a message of {size} bytes was not read for {waited_s:.0f} s: {reason}"
        log.warning("Envoy's connection is ended, it does not read", extra={"reason": details})
        self._end(End(by=Side.RELAY, code=grpc.StatusCode.DEADLINE_EXCEEDED, details=details))
        disconnect(self._envoy.peer())
