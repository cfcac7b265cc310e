from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import grpc
import grpc.aio
import pytest

from mesh_ca import Authority
from mesh_ca.testing import throwaway_authority

NOW = 1_800_000_000.0  # 2027-01-15 08:00:00 UTC


class Clock:
    """A wall clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


Serve = Callable[..., AbstractAsyncContextManager[int]]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def authority() -> Authority:
    return throwaway_authority()


@pytest.fixture
def serve() -> Serve:
    """A real gRPC server over TLS for handlers; gives the port."""

    @asynccontextmanager
    async def serving(
        authority: Authority,
        handler: "grpc.GenericRpcHandler[object, object]",
        *,
        require_client_certificate: bool = False,
        plaintext: bool = False,
    ) -> AsyncIterator[int]:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((handler,))
        if plaintext:
            port = server.add_insecure_port("127.0.0.1:0")
        else:
            key, chain = authority.issue_server_certificate(["localhost"])
            credentials = grpc.ssl_server_credentials(
                [(key, chain)],
                root_certificates=authority.root_pem if require_client_certificate else None,
                require_client_auth=require_client_certificate,
            )
            port = server.add_secure_port("127.0.0.1:0", credentials)
        await server.start()
        try:
            yield port
        finally:
            await server.stop(None)

    return serving
