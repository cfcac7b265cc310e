"""For tests: a source of secrets to play with, and a subscriber as Envoy is one."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mesh_sds.secrets._secrets import TlsCertificate, TrustBundle
from xds_server import type_urls

_SERVICE = "/envoy.service.secret.v3.SecretDiscoveryService/"
_ANSWER_WITHIN_S = 60.0


class FakeSecrets:
    """A `SecretSource` that holds what it is given."""

    def __init__(self) -> None:
        self._secrets: dict[str, TlsCertificate | TrustBundle] = {}
        self._failures: dict[str, Exception] = {}
        self._subscribers: set[_Subscription] = set()
        self.subscriptions = 0

    def get(self, name: str) -> TlsCertificate | TrustBundle | None:
        """Return what was last set; raises what the name was made to fail with."""
        if name in self._failures:
            raise self._failures[name]
        return self._secrets.get(name)

    def set(self, **secrets: TlsCertificate | TrustBundle) -> None:
        """Add or replace secrets, as one change."""
        for name in secrets:
            self._failures.pop(name, None)
        self._secrets.update(secrets)
        self._tell(secrets.keys())

    def remove(self, name: str) -> None:
        """Take a secret away."""
        self._secrets.pop(name, None)
        self._tell({name})

    def fail(self, name: str, error: Exception | None) -> None:
        """Make `get` raise for this name, without a word of it; None: no longer."""
        if error is None:
            self._failures.pop(name, None)
        else:
            self._failures[name] = error

    def break_off(self, error: Exception) -> None:
        """Make everybody's `changes` raise."""
        for subscription in self._subscribers:
            subscription.error = error
            subscription.news.set()

    async def changes(self) -> AsyncIterator[frozenset[str]]:
        """Yield the names of what changed, first of all that there is."""
        subscription = _Subscription(frozenset(self._secrets))
        self._subscribers.add(subscription)
        self.subscriptions += 1
        try:
            while True:
                await subscription.news.wait()
                subscription.news.clear()
                if subscription.error is not None:
                    raise subscription.error
                names, subscription.names = subscription.names, frozenset()
                yield names
        finally:
            self._subscribers.discard(subscription)

    def _tell(self, names: Iterable[str]) -> None:
        for subscription in self._subscribers:
            subscription.names = subscription.names.union(names)
            subscription.news.set()


class _Subscription:
    def __init__(self, names: frozenset[str]) -> None:
        self.names = names
        self.error: Exception | None = None
        self.news = asyncio.Event()
        if names:
            self.news.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretResponse:
    """One response: each secret's PEM (chain or roots) by its name, in the order sent."""

    nonce: str
    version: str
    secrets: Mapping[str, bytes]
    removed: tuple[str, ...] = ()


class SecretSubscriber:
    """One stream of either dialect that asks for secrets; see `subscriber`."""

    def __init__(self, call: Any, *, delta: bool, node_id: str) -> None:
        self._call = call
        self._delta = delta
        self._node_id = node_id
        self._names: tuple[str, ...] = ()

    async def ask(self, *names: str, version: str = "", nonce: str = "") -> None:
        """Say what is wanted; a nonce makes it an ACK that changes the names."""
        before, self._names = self._names, names
        if self._delta:
            await self._send(
                resource_names_subscribe=[name for name in names if name not in before],
                resource_names_unsubscribe=[name for name in before if name not in names],
                response_nonce=nonce,
            )
        else:
            await self._send(resource_names=names, version_info=version, response_nonce=nonce)

    async def read(self) -> SecretResponse:
        """Wait for the next response."""
        async with asyncio.timeout(_ANSWER_WITHIN_S):
            return _response(await self._call.read())

    async def accept(self, response: SecretResponse) -> None:
        """Say yes."""
        await self.ask(*self._names, version=response.version, nonce=response.nonce)

    async def refuse(self, response: SecretResponse, message: str) -> None:
        """Say no."""
        names = {} if self._delta else {"resource_names": self._names}
        await self._send(
            response_nonce=response.nonce, error_detail={"code": 13, "message": message}, **names
        )

    async def ended(self) -> tuple[Any, str]:
        """Wait for the end of the stream; return its gRPC status code and words."""
        async with asyncio.timeout(_ANSWER_WITHIN_S):
            return await self._call.code(), await self._call.details()

    async def _send(self, **fields: Any) -> None:
        from envoy.service.discovery.v3 import discovery_pb2

        kind: Any = (
            discovery_pb2.DeltaDiscoveryRequest if self._delta else discovery_pb2.DiscoveryRequest
        )
        request = kind(node={"id": self._node_id}, type_url=type_urls.SECRET, **fields)
        await self._call.write(request.SerializeToString())


@asynccontextmanager
async def subscriber(
    socket_path: Path, *, delta: bool = False, node_id: str = "envoy"
) -> AsyncIterator[SecretSubscriber]:
    """Connect to a secret server, on a connection of its own."""
    import grpc.aio
    from envoy.service.discovery.v3 import discovery_pb2

    decode: Any = discovery_pb2.DeltaDiscoveryResponse if delta else discovery_pb2.DiscoveryResponse
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(f"unix:{socket_path}", options=options) as channel:
        stream: Any = channel.stream_stream(
            _SERVICE + ("DeltaSecrets" if delta else "StreamSecrets"),
            request_serializer=None,
            response_deserializer=decode.FromString,
        )
        call = stream()
        try:
            yield SecretSubscriber(call, delta=delta, node_id=node_id)
        finally:
            await _hang_up(call)


async def _hang_up(call: Any) -> None:
    """Say goodbye and wait for the server to, so that nothing of the stream is left there."""
    import grpc.aio

    end: Any = vars(grpc.aio)["EOF"]
    if not call.done():
        await call.done_writing()
    try:
        async with asyncio.timeout(_ANSWER_WITHIN_S):
            while await call.read() is not end:
                pass
    except grpc.aio.AioRpcError:
        return


def _response(message: Any) -> SecretResponse:
    from envoy.extensions.transport_sockets.tls.v3 import secret_pb2

    secrets = {}
    for resource in message.resources:
        body = resource.resource.value if hasattr(resource, "resource") else resource.value
        secret: Any = secret_pb2.Secret.FromString(body)
        secrets[secret.name] = (
            secret.tls_certificate.certificate_chain.inline_bytes
            or secret.validation_context.trusted_ca.inline_bytes
        )
    return SecretResponse(
        nonce=message.nonce,
        version=getattr(message, "version_info", "") or getattr(message, "system_version_info", ""),
        secrets=secrets,
        removed=tuple(getattr(message, "removed_resources", ())),
    )
