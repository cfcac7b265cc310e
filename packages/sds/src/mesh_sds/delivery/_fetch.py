"""`FetchSecrets`: one request and one response, for clients that poll.

A call is served as a stream that ends after one request, so all rules for streams apply to it.
"""

from typing import TYPE_CHECKING

import grpc
import grpc.aio

from mesh_listening import PeerCredentials
from mesh_protowire import string_field
from xds_server import Refused, XdsServer, peer_of, type_urls

if TYPE_CHECKING:
    GenericRpcHandler = grpc.GenericRpcHandler[bytes, bytes]
else:  # gRPC's stubs know type parameters that its classes do not have.
    GenericRpcHandler = grpc.GenericRpcHandler

_TYPE_URL = 4  # of DiscoveryResponse
_FETCH = "/envoy.service.secret.v3.SecretDiscoveryService/FetchSecrets"


class FetchHandler(GenericRpcHandler):
    """The one unary method of the secret service."""

    def __init__(self, server: XdsServer[PeerCredentials | None]) -> None:
        self._server = server

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        """Return the method's handler; None for every other method."""
        if handler_call_details.method != _FETCH:
            return None
        server = self._server

        async def fetch(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
            requests = [request]
            responses: list[bytes] = []

            async def read() -> bytes | None:
                return requests.pop() if requests else None

            async def write(data: bytes) -> None:
                responses.append(data)

            try:
                await server.serve_stream(
                    peer_of(context), read, write, delta=False, type_url=type_urls.SECRET
                )
            except Refused as refused:
                await context.abort(refused.code, refused.message)
            return responses[0] if responses else _empty_response()

        return grpc.unary_unary_rpc_method_handler(fetch)


def _empty_response() -> bytes:
    return string_field(_TYPE_URL, type_urls.SECRET)
