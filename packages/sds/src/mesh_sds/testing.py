"""For tests: a source of secrets that a test changes, and a subscriber as Envoy is one."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mesh_sds.secrets._secrets import TlsCertificate, TrustBundle
from xds_server import type_urls

if TYPE_CHECKING:
    import grpc.aio
    from envoy.service.discovery.v3 import discovery_pb2

_SERVICE = "/envoy.service.secret.v3.SecretDiscoveryService/"
_ANSWER_WITHIN_S = 60.0


class FakeSecrets:
    """A `SecretSource` with the secrets that a test sets."""

    def __init__(self) -> None:
        self._secrets: dict[str, TlsCertificate | TrustBundle] = {}
        self._failures: dict[str, Exception] = {}
        self._subscribers: set[_Subscription] = set()
        self.subscriptions = 0

    def get(self, name: str) -> TlsCertificate | TrustBundle | None:
        """Return the secret that was set last; raises the error of `fail`."""
        if name in self._failures:
            raise self._failures[name]
        return self._secrets.get(name)

    def set(self, **secrets: TlsCertificate | TrustBundle) -> None:
        """Add or replace secrets, as one change."""
        for name in secrets:
            self._failures.pop(name, None)
        self._secrets.update(secrets)
        self._notify(secrets.keys())

    def remove(self, name: str) -> None:
        """Take a secret away."""
        self._secrets.pop(name, None)
        self._notify({name})

    def fail(self, name: str, error: Exception | None) -> None:
        """Make `get` raise for this name, without a change; None: no longer."""
        if error is None:
            self._failures.pop(name, None)
        else:
            self._failures[name] = error

    def break_off(self, error: Exception) -> None:
        """Make `changes` raise for every subscriber."""
        for subscription in self._subscribers:
            subscription.error = error
            subscription.changed.set()

    async def changes(self) -> AsyncIterator[frozenset[str]]:
        """Yield the names of secrets that changed; first of all that there are."""
        subscription = _Subscription(frozenset(self._secrets))
        self._subscribers.add(subscription)
        self.subscriptions += 1
        try:
            while True:
                await subscription.changed.wait()
                subscription.changed.clear()
                if subscription.error is not None:
                    raise subscription.error
                names, subscription.names = subscription.names, frozenset()
                yield names
        finally:
            self._subscribers.discard(subscription)

    def _notify(self, names: Iterable[str]) -> None:
        for subscription in self._subscribers:
            subscription.names = subscription.names.union(names)
            subscription.changed.set()


class _Subscription:
    def __init__(self, names: frozenset[str]) -> None:
        self.names = names
        self.error: Exception | None = None
        self.changed = asyncio.Event()
        if names:
            self.changed.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretResponse:
    """One response: each secret's PEM (chain or roots) by its name, in the order sent."""

    nonce: str
    version: str
    secrets: Mapping[str, bytes]
    removed: tuple[str, ...] = ()


class SecretSubscriber:
    """One stream of either dialect that asks for secrets; see `subscriber`."""

    def __init__(
        self, call: "grpc.aio.StreamStreamCall[bytes, bytes]", *, delta: bool, node_id: str
    ) -> None:
        self._call = call
        self._delta = delta
        self._node_id = node_id
        self._names: tuple[str, ...] = ()

    async def ask(self, *names: str, version: str = "", nonce: str = "") -> None:
        """Ask for these names; with a nonce, it is an ACK that changes the names."""
        from envoy.service.discovery.v3 import discovery_pb2

        before, self._names = self._names, names
        if self._delta:
            await self._send(
                discovery_pb2.DeltaDiscoveryRequest(
                    resource_names_subscribe=[name for name in names if name not in before],
                    resource_names_unsubscribe=[name for name in before if name not in names],
                    response_nonce=nonce,
                )
            )
        else:
            await self._send(
                discovery_pb2.DiscoveryRequest(
                    resource_names=names, version_info=version, response_nonce=nonce
                )
            )

    async def read(self) -> SecretResponse:
        """Wait for the next response; raises EOFError at the end of the stream."""
        async with asyncio.timeout(_ANSWER_WITHIN_S):
            data = await self._call.read()
        if isinstance(data, bytes):
            return _delta_response(data) if self._delta else _sotw_response(data)
        raise EOFError("the secret server has ended the stream")

    async def accept(self, response: SecretResponse) -> None:
        """Acknowledge a response."""
        await self.ask(*self._names, version=response.version, nonce=response.nonce)

    async def refuse(self, response: SecretResponse, message: str) -> None:
        """Refuse a response."""
        from envoy.service.discovery.v3 import discovery_pb2

        request: discovery_pb2.DeltaDiscoveryRequest | discovery_pb2.DiscoveryRequest
        if self._delta:
            request = discovery_pb2.DeltaDiscoveryRequest(response_nonce=response.nonce)
        else:
            request = discovery_pb2.DiscoveryRequest(
                resource_names=self._names, response_nonce=response.nonce
            )
        request.error_detail.code = 13
        request.error_detail.message = message
        await self._send(request)

    async def ended(self) -> "tuple[grpc.StatusCode, str | None]":
        """Wait for the end of the stream; return its gRPC status code and message."""
        async with asyncio.timeout(_ANSWER_WITHIN_S):
            return await self._call.code(), await self._call.details()

    async def _send(
        self, request: "discovery_pb2.DeltaDiscoveryRequest | discovery_pb2.DiscoveryRequest"
    ) -> None:
        request.node.id = self._node_id
        request.type_url = type_urls.SECRET
        await self._call.write(request.SerializeToString())


@asynccontextmanager
async def subscriber(
    socket_path: Path, *, delta: bool = False, node_id: str = "envoy"
) -> AsyncIterator[SecretSubscriber]:
    """Connect to a secret server, on a connection of its own."""
    import grpc.aio

    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(f"unix:{socket_path}", options=options) as channel:
        method = _SERVICE + ("DeltaSecrets" if delta else "StreamSecrets")
        call: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(method, None, None)(
            None
        )
        try:
            yield SecretSubscriber(call, delta=delta, node_id=node_id)
        finally:
            await _end(call)


async def _end(call: "grpc.aio.StreamStreamCall[bytes, bytes]") -> None:
    """End the stream and wait for the server's end, so that the server has released it."""
    import grpc.aio

    if not call.done():
        await call.done_writing()
    try:
        async with asyncio.timeout(_ANSWER_WITHIN_S):
            while isinstance(await call.read(), bytes):
                pass
    except grpc.aio.AioRpcError:
        return


def _sotw_response(data: bytes) -> SecretResponse:
    from envoy.service.discovery.v3 import discovery_pb2

    message = discovery_pb2.DiscoveryResponse.FromString(data)
    return SecretResponse(
        nonce=message.nonce,
        version=message.version_info,
        secrets=dict(_name_and_pem(resource.value) for resource in message.resources),
    )


def _delta_response(data: bytes) -> SecretResponse:
    from envoy.service.discovery.v3 import discovery_pb2

    message = discovery_pb2.DeltaDiscoveryResponse.FromString(data)
    return SecretResponse(
        nonce=message.nonce,
        version=message.system_version_info,
        secrets=dict(_name_and_pem(each.resource.value) for each in message.resources),
        removed=tuple(message.removed_resources),
    )


def _name_and_pem(body: bytes) -> tuple[str, bytes]:
    from envoy.extensions.transport_sockets.tls.v3 import secret_pb2

    secret = secret_pb2.Secret.FromString(body)
    chain = secret.tls_certificate.certificate_chain.inline_bytes
    return secret.name, chain or secret.validation_context.trusted_ca.inline_bytes
