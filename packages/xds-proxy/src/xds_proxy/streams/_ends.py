"""How a relayed stream ended, and the words for it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import grpc

from xds_proxy._errors import WireError


class Side(Enum):
    """The party that ended a stream."""

    ENVOY = "Envoy"
    CONTROL_PLANE = "control plane"
    RELAY = "relay"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a stream ended, and the status that Envoy gets."""

    by: Side
    code: grpc.StatusCode
    details: str = ""


def malformed(what: str, error: WireError) -> End:
    """Return the end of a stream on which a message could not be read."""
    return End(
        by=Side.RELAY, code=grpc.StatusCode.INTERNAL, details=f"{what} is malformed: {error}"
    )
