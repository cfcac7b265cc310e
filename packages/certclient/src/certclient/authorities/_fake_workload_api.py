"""A SPIFFE Workload API for tests, over a real socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc
import grpc.aio
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from certclient.authorities._workload_api_messages import (
    FETCH_X509_SVID,
    SECURITY_HEADER,
    request_class,
    response_class,
)
from certclient.x509._certificate import Certificate

if TYPE_CHECKING:
    from certclient.authorities._workload_api_messages import X509SvidRequest, X509SvidResponse

    Context = grpc.aio.ServicerContext[X509SvidRequest, X509SvidResponse]


class FakeWorkloadApi:
    """Sends the newest response to every stream; created by `fake_workload_api`."""

    def __init__(self) -> None:
        self.streams = 0
        self._response: X509SvidResponse | None = None
        self._refusal: tuple[grpc.StatusCode, str] | None = None
        self._changed = asyncio.Event()

    def serve(self, *certificates: Certificate, hints: tuple[str, ...] = ()) -> None:
        """Send these identities, with their revocation lists, to open and to new streams."""
        response = response_class()()
        for number, certificate in enumerate(certificates):
            key = load_pem_private_key(certificate.private_key_pem, password=None)
            response.svids.add(
                spiffe_id=str(certificate.spiffe_id),
                x509_svid=_ders(certificate.chain_pem),
                x509_svid_key=key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()),
                bundle=_ders(certificate.trust_bundle_pem),
                hint=hints[number] if number < len(hints) else "",
            )
            if certificate.crl_pem:
                revoking = x509.load_pem_x509_crl(certificate.crl_pem)
                response.crl.append(revoking.public_bytes(Encoding.DER))
        self._response, self._refusal = response, None
        self._wake()

    def serve_raw(self, **fields: bytes | str) -> None:
        """Send one identity of these fields, which may be invalid."""
        response = response_class()()
        response.svids.add(**fields)
        self._response, self._refusal = response, None
        self._wake()

    def refuse(self, code: grpc.StatusCode, details: str) -> None:
        """End every open and new stream with this status."""
        self._refusal = code, details
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def fetch(
        self, request: "X509SvidRequest", context: "Context"
    ) -> "AsyncIterator[X509SvidResponse]":
        """Handle one stream."""
        del request
        if SECURITY_HEADER not in tuple(context.invocation_metadata() or ()):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "security header missing")
        self.streams += 1
        while True:
            changed = self._changed
            if self._refusal is not None:
                await context.abort(*self._refusal)
            if self._response is not None:
                yield self._response
            await changed.wait()


@asynccontextmanager
async def fake_workload_api(address: str) -> AsyncIterator[FakeWorkloadApi]:
    """Serve on "unix:///PATH" or "tcp://IP:PORT"."""
    api = FakeWorkloadApi()
    server = grpc.aio.server()
    method = grpc.unary_stream_rpc_method_handler(
        api.fetch,
        request_deserializer=request_class().FromString,
        response_serializer=response_class().SerializeToString,
    )
    _, service, name = FETCH_X509_SVID.split("/")
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {name: method}),)
    )
    server.add_insecure_port(address.removeprefix("tcp://"))
    await server.start()
    try:
        yield api
    finally:
        await server.stop(None)


def _ders(pem: bytes) -> bytes:
    return b"".join(
        each.public_bytes(Encoding.DER) for each in x509.load_pem_x509_certificates(pem)
    )
