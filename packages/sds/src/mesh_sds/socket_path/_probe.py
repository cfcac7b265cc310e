"""Probes the server of another process at the path of our socket: its health, and its APIs.

A SPIRE agent, or another provider of the SPIFFE Workload API or of Envoy's SDS, may serve the
socket that we would serve. Then it provides the workload certificate, and we don't serve.
"""

import asyncio
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

import grpc
import grpc.aio
import msgspec

from mesh_listening import SocketFile
from mesh_sds._errors import SocketUnusable
from mesh_sds.socket_path._socket_file import inspect_socket_path

TIMEOUT_S = 5.0
"""An answer takes a millisecond, but machines that are starting are slow."""


class SecretApi(StrEnum):
    """The APIs that a provider of certificates may have."""

    SDS = "SDS"
    DELTA_SDS = "delta SDS"
    WORKLOAD = "SPIFFE Workload API"


_NO_METHOD = "/mesh.probe.NoSuchService/NoSuchMethod"
"""A server that does not refuse this method answers to any, so its other answers tell nothing."""
_BROKEN = frozenset(
    {
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.INTERNAL,
    }
)

# Each is called with an empty request: no node, and not the header that the Workload API needs. A
# server that has the method waits for more or refuses; one that lacks it answers UNIMPLEMENTED. No
# key is sent.
_METHODS = {
    SecretApi.SDS: "/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets",
    SecretApi.DELTA_SDS: "/envoy.service.secret.v3.SecretDiscoveryService/DeltaSecrets",
    SecretApi.WORKLOAD: "/SpiffeWorkloadAPI/FetchX509SVID",
}


class OwnSocket(msgspec.Struct, frozen=True, kw_only=True):
    """The path is ours to serve."""

    path: Path


class ForeignSocket(msgspec.Struct, frozen=True, kw_only=True):
    """Another process serves the path. apis: those that it has, in good health."""

    path: Path
    apis: frozenset[SecretApi]


SocketChoice: TypeAlias = OwnSocket | ForeignSocket


async def probe(path: Path, *, timeout_s: float = TIMEOUT_S) -> SocketChoice:
    """Return whether a process serves `path`, and which APIs it has.

    A server that answers to any method, or fails at the methods of an API, lacks the API.

    Raises SocketUnusable for a file that is no socket, and for a listener that does not speak gRPC
    within timeout_s.
    """
    match inspect_socket_path(path):
        case SocketFile.ABSENT | SocketFile.DEAD:
            return OwnSocket(path=path)
        case SocketFile.NOT_A_SOCKET:
            raise SocketUnusable(f"{path} is in the way: it exists and is not a socket")
        case SocketFile.LISTENING:
            pass
    address = f"unix:{path}"
    # A subchannel of its own: one that failed before would wait in its backoff.
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        try:
            async with asyncio.timeout(timeout_s):
                await channel.channel_ready()
        except TimeoutError as error:
            raise SocketUnusable(
                f"{path} is in use by a process that does not speak gRPC within {timeout_s:g} s; "
                "stop it, or remove the socket"
            ) from error
        unknown, *codes = await asyncio.gather(
            *(_answer(channel, method, timeout_s) for method in (_NO_METHOD, *_METHODS.values()))
        )
    apis = frozenset(api for api, code in zip(_METHODS, codes, strict=True) if code not in _BROKEN)
    credible = unknown is grpc.StatusCode.UNIMPLEMENTED
    return ForeignSocket(path=path, apis=apis if credible else frozenset())


async def _answer(channel: grpc.aio.Channel, method: str, timeout_s: float) -> grpc.StatusCode:
    """Return the status of a call with no request; a server that waits exceeds the deadline."""
    call = channel.stream_stream(method, None, None)(None, timeout=timeout_s)
    try:
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):  # ended already
            await call.done_writing()
        code: grpc.StatusCode = await call.code()
        return code
    finally:
        call.cancel()
