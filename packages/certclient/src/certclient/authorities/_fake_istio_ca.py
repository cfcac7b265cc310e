"""An Istio CA API for tests, over a real socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

import grpc
import grpc.aio

from certclient.authorities._authority import CertificateAuthority
from mesh_protos import CREATE_CERTIFICATE
from mesh_protos.ca_pb2 import IstioCertificateRequest, IstioCertificateResponse

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[IstioCertificateRequest, IstioCertificateResponse]


@dataclass(slots=True, kw_only=True)
class FakeIstioCa:
    """Records the requests, and signs each after the answers that are queued; created by
    `fake_istio_ca`.

    answers: one is used for each request: a status to fail with, or None to never answer.
    asked_at: the times of the requests, by the event loop's clock.
    metadata: the metadata of the requests.
    """

    authority: CertificateAuthority
    address: str = ""
    answers: list[grpc.StatusCode | None] = field(default_factory=list)
    asked_at: list[float] = field(default_factory=list)
    metadata: list[dict[str, str]] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait_asked(self, times: int) -> None:
        """Wait until this many requests have come."""
        while len(self.asked_at) < times:
            await self.asked.wait()

    async def create_certificate(
        self,
        request: IstioCertificateRequest,
        context: "Context",
    ) -> IstioCertificateResponse:
        """Handle one request."""
        self.asked_at.append(asyncio.get_running_loop().time())
        self.metadata.append(
            {key: str(value) for key, value in context.invocation_metadata() or ()}
        )
        self.asked.set()
        self.asked = asyncio.Event()
        if self.answers:
            code = self.answers.pop(0)
            if code is None:
                await asyncio.Event().wait()
            else:
                await context.abort(code, "as told")
        chain = await self.authority.sign(
            request.csr.encode(), lifetime=timedelta(seconds=request.validity_duration)
        )
        return IstioCertificateResponse(cert_chain=[part.decode() for part in chain])


@asynccontextmanager
async def fake_istio_ca(
    authority: CertificateAuthority,
    *,
    address: str = "127.0.0.1:0",
    credentials: grpc.ServerCredentials | None = None,
) -> AsyncIterator[FakeIstioCa]:
    """Serve the API; plaintext without credentials."""
    fake = FakeIstioCa(authority=authority)
    server = grpc.aio.server()
    method = grpc.unary_unary_rpc_method_handler(
        fake.create_certificate,
        request_deserializer=IstioCertificateRequest.FromString,
        response_serializer=IstioCertificateResponse.SerializeToString,
    )
    _, service, name = CREATE_CERTIFICATE.split("/")
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {name: method}),)
    )
    port = (
        server.add_insecure_port(address)
        if credentials is None
        else server.add_secure_port(address, credentials)
    )
    fake.address = f"{address.rpartition(':')[0]}:{port}"
    await server.start()
    try:
        yield fake
    finally:
        await server.stop(None)
