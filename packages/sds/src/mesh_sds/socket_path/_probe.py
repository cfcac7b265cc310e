"""Somebody else's secret socket in the place of ours: is it alive, and what does it speak?

A SPIRE agent, or another provider of the SPIFFE Workload API or of Envoy's SDS, may serve the very
socket that we would. Then it owns the workload certificate, and we keep away from it.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import grpc.aio

from mesh_listening import SocketFile
from mesh_sds._errors import SocketUnusable
from mesh_sds.socket_path._socket_file import inspect_socket_path

TIMEOUT_S = 5.0
"""For an answer that takes a millisecond: machines that are starting are slow."""


class SecretApi(StrEnum):
    """What a provider of certificates may speak."""

    SDS = "SDS"
    DELTA_SDS = "delta SDS"
    WORKLOAD = "SPIFFE Workload API"


_NO_METHOD = "/mesh.probe.NoSuchService/NoSuchMethod"
"""A server that does not refuse this one answers to anything, so its other answers say nothing."""
_BROKEN = frozenset(
    {
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.INTERNAL,
    }
)

# Each is called without saying anything: no node, and not the header that the Workload API wants.
# Who has the method lacks something to answer with; who does not, says so. No key is sent.
_METHODS = {
    SecretApi.SDS: "/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets",
    SecretApi.DELTA_SDS: "/envoy.service.secret.v3.SecretDiscoveryService/DeltaSecrets",
    SecretApi.WORKLOAD: "/SpiffeWorkloadAPI/FetchX509SVID",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSocket:
    """The path is ours to serve."""

    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignSocket:
    """Somebody serves the path. apis: what it speaks of what we know, in good health."""

    path: Path
    apis: frozenset[SecretApi]


SocketChoice: TypeAlias = OwnSocket | ForeignSocket


async def probe(path: Path, *, timeout_s: float = TIMEOUT_S) -> SocketChoice:
    """Tell whether somebody serves secrets, or any gRPC, at `path`.

    A server that answers to any method whatever, or fails at those of secrets, has no API.

    Raises SocketUnusable for what is in the way: no socket, or a listener that does not speak gRPC
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
    # Of its own, as a channel that failed before would make this one wait in its backoff.
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


async def _answer(channel: Any, method: str, timeout_s: float) -> grpc.StatusCode:
    """The status of a call that says nothing; a server that waits on exceeds the deadline."""
    call = channel.stream_stream(method)(timeout=timeout_s)
    try:
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):  # ended already
            await call.done_writing()
        code: grpc.StatusCode = await call.code()
        return code
    finally:
        call.cancel()
