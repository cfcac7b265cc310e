"""How the streams of Envoy and to the control plane end, and the words for it."""

from __future__ import annotations

import asyncio
from enum import Enum, auto

import grpc
import msgspec

from mesh_protowire import BeyondLimit, WireError


class Side(Enum):
    """The party that ended a stream."""

    ENVOY = "Envoy"
    CONTROL_PLANE = "control plane"
    RELAY = "relay"


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How a stream of Envoy's ended, and the status that Envoy gets."""

    by: Side
    code: grpc.StatusCode
    details: str = ""


class FirstEnd:
    """The end of one stream of Envoy's: of several ends the first one counts."""

    def __init__(self) -> None:
        self._ended: asyncio.Future[End] = asyncio.get_running_loop().create_future()

    @property
    def has_come(self) -> bool:
        """Whether the stream has ended."""
        return self._ended.done()

    def put(self, end: End) -> None:
        """End the stream, if it has not ended before."""
        if not self._ended.done():
            self._ended.set_result(end)

    async def wait(self) -> End:
        """Wait for the end and return it."""
        return await asyncio.shield(self._ended)


class Cause(Enum):
    """Why an upstream stream ended, or was never opened."""

    ENDED = auto()
    """by the control plane, or with the connection to it"""
    UNREACHABLE = auto()
    NOT_READING = auto()
    MALFORMED = auto()
    BEYOND_LIMIT = auto()
    """by the relay, for a response that is larger than it takes"""


class UpstreamEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How an upstream stream ended.

    code, details: the status that Envoy gets if its stream ends too.
    failure: why this is not an end that control planes make in the ordinary run of things.
    """

    cause: Cause
    code: grpc.StatusCode
    details: str
    failure: str | None = None


def malformed_end(what: str, error: WireError) -> End:
    """Return the end of a stream on which a message could not be read."""
    if isinstance(error, BeyondLimit):
        details = f"{what} is beyond a limit of the agent's relay: {error}"
        return End(by=Side.RELAY, code=grpc.StatusCode.RESOURCE_EXHAUSTED, details=details)
    return End(
        by=Side.RELAY, code=grpc.StatusCode.INTERNAL, details=f"{what} is malformed: {error}"
    )
