"""For tests of a control plane: streams without a network, and clients that follow the protocol.

`SotwClient` and `DeltaClient` keep what they were sent, as Envoy would, and accept or refuse it
as a test says. They speak over anything that moves bytes: `in_memory` to an `XdsServer` in this
process, `over_grpc` to any server that has an address.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, TypeVar

import grpc
import grpc.aio
from envoy.config.core.v3 import base_pb2
from envoy.service.discovery.v3 import discovery_pb2

from mesh_protowire import text_of
from xds_server._errors import Refused
from xds_server._server import XdsServer
from xds_server.protocol._node import JSON, Node
from xds_server.protocol._type_urls import FULL_STATE, NAMED_ONLY, RESOURCE_WRAPPER
from xds_server.protocol._watch import Watch
from xds_server.streams._admission import Admission, Peer

if TYPE_CHECKING:
    from google.protobuf import any_pb2

C = TypeVar("C")
T = TypeVar("T")

ADS_SOTW = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
ADS_DELTA = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"


class StreamEnded(Exception):
    """The server ended the stream; `code` is its status."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message


class Wire(Protocol):
    """The client's end of a stream."""

    async def send(self, data: bytes) -> None:
        """Send one request. Raises `StreamEnded`."""
        ...

    async def receive(self) -> bytes:
        """The next response, waited for. Raises `StreamEnded`."""
        ...


async def admit_all(_node: Node, _peer: Peer) -> Admission[None]:
    """An `Admit` that lets all clients in."""
    return Admission(context=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A response as a client sees it: resources by name, each as its serialised message."""

    type_url: str
    nonce: str
    version: str
    resources: Mapping[str, bytes]
    versions: Mapping[str, str] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    data: bytes = field(repr=False)


class _Client:
    """The part that clients of both dialects share."""

    def __init__(self, wire: Wire, *, node_id: str, metadata: Mapping[str, JSON] | None) -> None:
        self._wire = wire
        self._node = base_pb2.Node(id=node_id, user_agent_name="model")
        if metadata:
            self._node.metadata.update(dict(metadata))
        self._node_sent = False
        self._have: dict[str, dict[str, bytes]] = {}
        self._nonces: dict[str, str] = {}
        self._versions: dict[str, str] = {}

    def resources(self, type_url: str) -> Mapping[str, bytes]:
        """Return the resources of a type that this client has, by name."""
        return MappingProxyType(self._have.get(type_url, {}))

    async def send(
        self, request: discovery_pb2.DiscoveryRequest | discovery_pb2.DeltaDiscoveryRequest
    ) -> None:
        """Send a request as it is; the first also says who this client is."""
        if not self._node_sent:
            request.node.CopyFrom(self._node)
            self._node_sent = True
        await self._wire.send(request.SerializeToString())


class SotwClient(_Client):
    """A client of the state-of-the-world dialect."""

    def __init__(
        self, wire: Wire, *, node_id: str = "model", metadata: Mapping[str, JSON] | None = None
    ) -> None:
        super().__init__(wire, node_id=node_id, metadata=metadata)
        self._names: dict[str, tuple[str, ...]] = {}

    async def subscribe(self, type_url: str, *names: str) -> None:
        """Want exactly these names from now on; none: everything, where the type has that."""
        self._names[type_url] = names
        if type_url in NAMED_ONLY or names:
            have = self._have.get(type_url, {})
            covers = _watch(type_url, names).covers
            self._have[type_url] = {name: body for name, body in have.items() if covers(name)}
        await self._request(type_url)

    async def receive(self) -> Reply:
        """The next response, neither accepted nor refused yet."""
        data = await self._wire.receive()
        message = discovery_pb2.DiscoveryResponse.FromString(data)
        return Reply(
            type_url=message.type_url,
            nonce=message.nonce,
            version=message.version_info,
            resources=dict(_unwrap(message.resources)),
            data=data,
        )

    async def ack(self, reply: Reply) -> None:
        """Take over the resources of a response, and accept it."""
        names = self._names.get(reply.type_url, ())
        watch = _watch(reply.type_url, names)
        have = {name: body for name, body in reply.resources.items() if watch.covers(name)}
        if reply.type_url not in FULL_STATE and not watch.wildcard:
            have = {**self._have.get(reply.type_url, {}), **have}
        self._have[reply.type_url] = have
        self._nonces[reply.type_url] = reply.nonce
        self._versions[reply.type_url] = reply.version
        await self._request(reply.type_url)

    async def nack(self, reply: Reply, message: str = "refused by the model client") -> None:
        """Keep the resources there were, and refuse a response."""
        self._nonces[reply.type_url] = reply.nonce
        await self._request(reply.type_url, error=message)

    async def next(self) -> Reply:
        """The next response, accepted."""
        reply = await self.receive()
        await self.ack(reply)
        return reply

    async def _request(self, type_url: str, *, error: str | None = None) -> None:
        request = discovery_pb2.DiscoveryRequest(
            type_url=type_url,
            resource_names=self._names.get(type_url, ()),
            response_nonce=self._nonces.get(type_url, ""),
            version_info=self._versions.get(type_url, ""),
        )
        if error is not None:
            request.error_detail.code = grpc.StatusCode.INVALID_ARGUMENT.value[0]
            request.error_detail.message = error
        await self.send(request)


class DeltaClient(_Client):
    """A client of the delta dialect."""

    def __init__(
        self, wire: Wire, *, node_id: str = "model", metadata: Mapping[str, JSON] | None = None
    ) -> None:
        super().__init__(wire, node_id=node_id, metadata=metadata)

    async def subscribe(
        self,
        type_url: str,
        *names: str,
        initial_versions: Mapping[str, str] | None = None,
    ) -> None:
        """Want these names too; none in the first request: everything."""
        await self.send(
            discovery_pb2.DeltaDiscoveryRequest(
                type_url=type_url,
                resource_names_subscribe=names,
                initial_resource_versions=initial_versions or {},
            )
        )

    async def unsubscribe(self, type_url: str, *names: str) -> None:
        """Want these names no longer."""
        have = self._have.get(type_url, {})
        self._have[type_url] = {n: b for n, b in have.items() if n not in names}
        await self.send(
            discovery_pb2.DeltaDiscoveryRequest(type_url=type_url, resource_names_unsubscribe=names)
        )

    async def receive(self) -> Reply:
        """The next response, neither accepted nor refused yet."""
        data = await self._wire.receive()
        message = discovery_pb2.DeltaDiscoveryResponse.FromString(data)
        return Reply(
            type_url=message.type_url,
            nonce=message.nonce,
            version=message.system_version_info,
            resources={
                resource.name: resource.resource.value
                for resource in message.resources
                if resource.HasField("resource")
            },
            versions={resource.name: resource.version for resource in message.resources},
            removed=frozenset(message.removed_resources),
            data=data,
        )

    async def ack(self, reply: Reply) -> None:
        """Take over the resources of a response, and accept it."""
        have = self._have.setdefault(reply.type_url, {})
        have.update(reply.resources)
        for name in reply.removed:
            have.pop(name, None)
        await self.send(
            discovery_pb2.DeltaDiscoveryRequest(type_url=reply.type_url, response_nonce=reply.nonce)
        )

    async def nack(self, reply: Reply, message: str = "refused by the model client") -> None:
        """Keep the resources there were, and refuse a response."""
        request = discovery_pb2.DeltaDiscoveryRequest(
            type_url=reply.type_url, response_nonce=reply.nonce
        )
        request.error_detail.code = grpc.StatusCode.INVALID_ARGUMENT.value[0]
        request.error_detail.message = message
        await self.send(request)

    async def next(self) -> Reply:
        """The next response, accepted."""
        reply = await self.receive()
        await self.ack(reply)
        return reply


class MemoryWire:
    """Both ends of a stream in one process."""

    def __init__(self) -> None:
        self.requests: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.responses: asyncio.Queue[bytes | StreamEnded] = asyncio.Queue()

    async def send(self, data: bytes) -> None:
        await self.requests.put(data)

    async def send_goodbye(self) -> None:
        """End the client's side of the stream."""
        await self.requests.put(None)

    async def receive(self) -> bytes:
        response = await self.responses.get()
        if isinstance(response, StreamEnded):
            raise response
        return response


@asynccontextmanager
async def in_memory(
    server: XdsServer[C],
    *,
    delta: bool = False,
    type_url: str | None = None,
    peer: Peer | None = None,
) -> AsyncIterator[MemoryWire]:
    """A stream to a `running` server; leaving the context ends the client's side."""
    wire = MemoryWire()

    async def serve() -> None:
        try:
            await server.serve_stream(
                peer or Peer(address="memory"),
                wire.requests.get,
                wire.responses.put,
                delta=delta,
                type_url=type_url,
            )
        except Refused as refused:
            await wire.responses.put(StreamEnded(refused.code, refused.message))
        else:
            await wire.responses.put(StreamEnded(grpc.StatusCode.OK, "the stream is over"))

    task = asyncio.create_task(serve(), name="xds stream in memory")
    try:
        yield wire
        await wire.send_goodbye()
        await task
    finally:
        task.cancel()
        await asyncio.wait([task])


class GrpcWire:
    """A stream over gRPC.

    gRPC gives a call whose write fails the status INTERNAL, also where the server's own has come
    already or comes next (https://github.com/grpc/grpc/issues/36066). Of the statuses that the
    call is given, the one that is not INTERNAL counts.
    """

    def __init__(self, call: grpc.aio.StreamStreamCall[bytes, bytes]) -> None:
        self._call = call
        self._write_failed = False
        self._end: asyncio.Future[StreamEnded] = asyncio.get_running_loop().create_future()
        call.add_done_callback(self._note_status)

    async def send(self, data: bytes) -> None:
        try:
            await self._call.write(data)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            self._write_failed = True
            raise await self._ended() from error

    async def receive(self) -> bytes:
        try:
            data = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise await self._ended() from error
        if isinstance(data, bytes):
            return data
        raise await self._ended()

    async def _ended(self) -> StreamEnded:
        end = StreamEnded(await self._call.code(), await self._call.details() or "")
        if end.code is grpc.StatusCode.INTERNAL and self._write_failed:
            await asyncio.wait([self._end], timeout=_STATUS_WITHIN_S)
            return self._end.result() if self._end.done() else end
        return end

    def _note_status(self, call: grpc.aio.StreamStreamCall[bytes, bytes]) -> None:
        """Keep the first status that is not INTERNAL; gRPC calls this for each."""
        end = StreamEnded(_result(call.code()), _result(call.details()) or "")
        if end.code is not grpc.StatusCode.INTERNAL and not self._end.done():
            self._end.set_result(end)


_STATUS_WITHIN_S = 1.0
"""A status that comes after a failed write is on its way already; there need not be one."""


def _result(coroutine: Coroutine[object, object, T]) -> T:
    """Return the result of a coroutine that does not wait, as none does of a call that is done."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError("a call that is done has no status")


@asynccontextmanager
async def over_grpc(
    address: str,
    *,
    path: str = ADS_SOTW,
    credentials: grpc.ChannelCredentials | None = None,
    metadata: Iterable[tuple[str, str]] = (),
    options: Iterable[tuple[str, object]] = (),
) -> AsyncIterator[GrpcWire]:
    """A stream to a server with an address; leaving the context cancels it."""
    all_options = [("grpc.max_receive_message_length", -1), *options]
    channel = (
        grpc.aio.insecure_channel(address, options=all_options)
        if credentials is None
        else grpc.aio.secure_channel(address, credentials, options=all_options)
    )
    async with channel:
        call = channel.stream_stream(path, None, None)(None, metadata=tuple(metadata))
        try:
            yield GrpcWire(call)
        finally:
            call.cancel()
            await call.code()


def _watch(type_url: str, names: Collection[str]) -> Watch:
    return Watch(type_url=type_url, names=frozenset(names), wildcard=not names or "*" in names)


def _unwrap(resources: Iterable[any_pb2.Any]) -> Iterable[tuple[str, bytes]]:
    for resource in resources:
        if resource.type_url == RESOURCE_WRAPPER:
            wrapper = discovery_pb2.Resource.FromString(resource.value)
            if wrapper.HasField("resource"):
                yield wrapper.name, wrapper.resource.value
        else:
            # The name is field 1 of every type that has one.
            yield text_of(resource.value, 1), resource.value
