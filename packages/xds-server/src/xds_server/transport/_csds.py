"""CSDS: the resources each client was sent and its answers, for tools that speak it.

https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/status/v3/csds.proto
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Generic, TypeVar

import grpc
import grpc.aio

from xds_server._server import XdsServer
from xds_server.monitoring._status import ClientStatus, TypeStatus

if TYPE_CHECKING:
    from envoy.service.status.v3.csds_pb2 import ClientConfig, ClientStatusResponse

    GenericRpcHandler = grpc.GenericRpcHandler[bytes, ClientStatusResponse]
    RpcMethodHandler = grpc.RpcMethodHandler[bytes, ClientStatusResponse]
    ServicerContext = grpc.aio.ServicerContext[bytes, ClientStatusResponse]
else:  # gRPC's stubs know type parameters that its classes do not have.
    GenericRpcHandler = grpc.GenericRpcHandler
    ServicerContext = grpc.aio.ServicerContext

C = TypeVar("C")

_MOST_REQUEST_BYTES = 1024 * 1024
"""Requests name nodes, and are small."""

_SERVICE = "/envoy.service.status.v3.ClientStatusDiscoveryService/"


class ClientStatusHandler(GenericRpcHandler, Generic[C]):
    """The service, for `extra_handlers` of `serving`.

    It answers all callers, so serve it where only operators can reach it. It tells the names and
    versions of resources, not their contents.
    """

    def __init__(self, server: XdsServer[C]) -> None:
        self._server = server

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> RpcMethodHandler | None:
        from envoy.service.status.v3 import csds_pb2  # wanted by few

        # Requests stay bytes until it is known how many.
        codec = {"response_serializer": csds_pb2.ClientStatusResponse.SerializeToString}
        match (handler_call_details.method or "").removeprefix(_SERVICE):
            case "FetchClientStatus":
                return grpc.unary_unary_rpc_method_handler(self._fetch, **codec)
            case "StreamClientStatus":
                return grpc.stream_stream_rpc_method_handler(self._stream, **codec)
            case _:
                return None

    async def _fetch(self, request: bytes, context: ServicerContext) -> ClientStatusResponse:
        return await self._status(request, context)

    async def _stream(
        self, requests: AsyncIterator[bytes], context: ServicerContext
    ) -> AsyncIterator[ClientStatusResponse]:
        async for request in requests:
            yield await self._status(request, context)

    async def _status(self, data: bytes, context: ServicerContext) -> ClientStatusResponse:
        from envoy.service.status.v3 import csds_pb2
        from google.protobuf.message import DecodeError

        if len(data) > _MOST_REQUEST_BYTES:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"request of {len(data)} bytes, at most {_MOST_REQUEST_BYTES} are taken",
            )
        request = csds_pb2.ClientStatusRequest()
        try:
            request.MergeFromString(data)
        except DecodeError:
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"{len(data)} bytes that are no request for status",
            )
        wanted = {matcher.node_id.exact for matcher in request.node_matchers} - {""}
        response = csds_pb2.ClientStatusResponse()
        for client in self._server.clients():
            if not wanted or client.node.id in wanted:
                self._add(response.config.add(), client)
        return response

    def _add(self, config: ClientConfig, client: ClientStatus) -> None:
        config.node.id, config.node.cluster = client.node.id, client.node.cluster
        config.client_scope = client.id
        client_has = self._server.sent_to(client.id)
        for type_url, status in client.types.items():
            for resource in client_has.get(type_url, ()):
                entry = config.generic_xds_configs.add(
                    type_url=type_url,
                    name=resource.name,
                    version_info=resource.version,
                )
                _say_status(entry, status)
            for name in status.names - {resource.name for resource in client_has.get(type_url, ())}:
                entry = config.generic_xds_configs.add(type_url=type_url, name=name)
                _not_there(entry)


def _say_status(entry: ClientConfig.GenericXdsConfig, status: TypeStatus) -> None:
    """Synced, stale or in error; and acknowledged, requested or refused."""
    from envoy.admin.v3 import config_dump_shared_pb2
    from envoy.service.status.v3 import csds_pb2

    config, client = csds_pb2.ConfigStatus, config_dump_shared_pb2.ClientResourceStatus
    if status.sent_at is not None:
        entry.last_updated.FromNanoseconds(int(status.sent_at * 1e9))
    if status.in_sync:
        entry.config_status, entry.client_status = config.SYNCED, client.ACKED
    elif status.nack is not None:
        entry.config_status, entry.client_status = config.ERROR, client.NACKED
        entry.error_state.details = status.nack.message
        entry.error_state.version_info = status.nack.version
        entry.error_state.last_update_attempt.FromNanoseconds(int(status.nack.last * 1e9))
    else:
        entry.config_status, entry.client_status = config.STALE, client.REQUESTED


def _not_there(entry: ClientConfig.GenericXdsConfig) -> None:
    from envoy.admin.v3 import config_dump_shared_pb2
    from envoy.service.status.v3 import csds_pb2

    entry.config_status = csds_pb2.ConfigStatus.NOT_SENT
    entry.client_status = config_dump_shared_pb2.ClientResourceStatus.DOES_NOT_EXIST
