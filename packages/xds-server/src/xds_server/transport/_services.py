"""The gRPC services of xDS: the aggregated one, and one for each type."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

import grpc
import grpc.aio

from mesh_listening import HeldRoom, disconnect, hold_room, sent_bytes
from xds_server._errors import NotRead, Refused
from xds_server._server import XdsServer
from xds_server.protocol import _type_urls as types
from xds_server.transport._fetch import fetch
from xds_server.transport._peers import peer_of

if TYPE_CHECKING:
    GenericRpcHandler = grpc.GenericRpcHandler[bytes, bytes]
    RpcMethodHandler = grpc.RpcMethodHandler[bytes, bytes]
else:  # gRPC's stubs know type parameters that its classes do not have.
    GenericRpcHandler = grpc.GenericRpcHandler

C = TypeVar("C")

_SERVICE = "envoy.service."

_STREAMS: dict[str, tuple[str | None, bool]] = {
    # path: the type the service stands for (None: all), and whether it is delta
    "discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources": (None, False),
    "discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources": (None, True),
    "cluster.v3.ClusterDiscoveryService/StreamClusters": (types.CLUSTER, False),
    "cluster.v3.ClusterDiscoveryService/DeltaClusters": (types.CLUSTER, True),
    "endpoint.v3.EndpointDiscoveryService/StreamEndpoints": (types.ENDPOINT, False),
    "endpoint.v3.EndpointDiscoveryService/DeltaEndpoints": (types.ENDPOINT, True),
    "listener.v3.ListenerDiscoveryService/StreamListeners": (types.LISTENER, False),
    "listener.v3.ListenerDiscoveryService/DeltaListeners": (types.LISTENER, True),
    "route.v3.RouteDiscoveryService/StreamRoutes": (types.ROUTE, False),
    "route.v3.RouteDiscoveryService/DeltaRoutes": (types.ROUTE, True),
    "route.v3.ScopedRoutesDiscoveryService/StreamScopedRoutes": (types.SCOPED_ROUTE, False),
    "route.v3.ScopedRoutesDiscoveryService/DeltaScopedRoutes": (types.SCOPED_ROUTE, True),
    "route.v3.VirtualHostDiscoveryService/DeltaVirtualHosts": (types.VIRTUAL_HOST, True),
    "secret.v3.SecretDiscoveryService/StreamSecrets": (types.SECRET, False),
    "secret.v3.SecretDiscoveryService/DeltaSecrets": (types.SECRET, True),
    "runtime.v3.RuntimeDiscoveryService/StreamRuntime": (types.RUNTIME, False),
    "runtime.v3.RuntimeDiscoveryService/DeltaRuntime": (types.RUNTIME, True),
    "extension.v3.ExtensionConfigDiscoveryService/StreamExtensionConfigs": (
        types.EXTENSION_CONFIG,
        False,
    ),
    "extension.v3.ExtensionConfigDiscoveryService/DeltaExtensionConfigs": (
        types.EXTENSION_CONFIG,
        True,
    ),
}


_FETCHES = {
    "cluster.v3.ClusterDiscoveryService/FetchClusters": types.CLUSTER,
    "endpoint.v3.EndpointDiscoveryService/FetchEndpoints": types.ENDPOINT,
    "listener.v3.ListenerDiscoveryService/FetchListeners": types.LISTENER,
    "route.v3.RouteDiscoveryService/FetchRoutes": types.ROUTE,
    "route.v3.ScopedRoutesDiscoveryService/FetchScopedRoutes": types.SCOPED_ROUTE,
    "secret.v3.SecretDiscoveryService/FetchSecrets": types.SECRET,
    "runtime.v3.RuntimeDiscoveryService/FetchRuntime": types.RUNTIME,
    "extension.v3.ExtensionConfigDiscoveryService/FetchExtensionConfigs": types.EXTENSION_CONFIG,
}


class _Requests:
    """Reads the requests of a stream.

    A large one keeps its room until the next is asked for: it waits for its turn, or is parsed.
    """

    __slots__ = ("_context", "_held")

    def __init__(self, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        self._context = context
        self._held: HeldRoom | None = None

    async def read(self) -> object:
        self.close()
        message = await self._context.read()
        if isinstance(message, bytes):
            self._held = hold_room(self._context.peer(), len(message))
        return message

    def close(self) -> None:
        if self._held is not None:
            self._held.release()
            self._held = None


class XdsHandler(GenericRpcHandler, Generic[C]):
    """Every xDS stream of one server. Messages stay bytes: responses are put together by hand."""

    def __init__(self, server: XdsServer[C]) -> None:
        self._server = server

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> RpcMethodHandler | None:
        path = (handler_call_details.method or "").removeprefix("/" + _SERVICE)
        if path in _STREAMS:
            type_url, delta = _STREAMS[path]
            return self._stream(type_url, delta=delta)
        if path in _FETCHES:
            return self._fetch(_FETCHES[path])
        return None

    def _fetch(self, type_url: str) -> RpcMethodHandler:
        server = self._server

        async def answer(
            request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]
        ) -> bytes | None:
            try:
                return await fetch(server, request, peer_of(context), type_url=type_url)
            except Refused as refused:
                refused.with_traceback(None)  # as below
                await context.abort(refused.code, refused.message)

        return grpc.unary_unary_rpc_method_handler(answer)

    def _stream(self, type_url: str | None, *, delta: bool) -> RpcMethodHandler:
        server = self._server

        async def serve(_requests: object, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
            cut_off = False
            requests = _Requests(context)

            async def write(data: bytes) -> None:
                nonlocal cut_off
                try:
                    await context.write(data)
                except asyncio.CancelledError:
                    cut_off = True
                    raise
                except grpc.aio.InternalError:
                    # The client went in the middle of it, for which gRPC is about to cancel this.
                    await asyncio.get_running_loop().create_future()

            try:
                # At the end reading returns gRPC's EOF, which is no bytes.
                await server.serve_stream(
                    peer_of(context),
                    requests.read,
                    write,
                    delta=delta,
                    type_url=type_url,
                    taken=partial(sent_bytes, context.peer()),
                )
            except Refused as refused:
                # gRPC leaves a cycle with the exception that ends a call, and with this one, whose
                # frames have the request: tens of megabytes until they are collected.
                refused.with_traceback(None)
                requests.close()
                if not cut_off and not isinstance(refused, NotRead):
                    await context.abort(refused.code, refused.message)
                disconnect(context.peer())
                # A status would wait behind what is not read, and gRPC takes none before that is.
                # It cancels this when the client or its connection is gone.
                await asyncio.get_running_loop().create_future()
            finally:
                requests.close()

        return grpc.stream_stream_rpc_method_handler(serve)
