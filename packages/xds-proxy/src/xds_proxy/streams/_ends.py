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


def refusal(code: grpc.StatusCode, details: str, *, shown: str) -> str:
    """Return in words why the control plane ended a stream before its first answer.

    shown: the credentials that the relay presented, in words.
    """
    credentials = f" ({shown})"
    match code:
        case grpc.StatusCode.UNAUTHENTICATED:
            said = "unauthenticated: it does not accept the credentials of this workload"
        case grpc.StatusCode.PERMISSION_DENIED:
            said = "permission denied: it does not serve this workload's identity"
        case grpc.StatusCode.UNIMPLEMENTED:
            said, credentials = "it does not serve this kind of xDS stream", ""
        case _:
            said = f"it ended the stream before its first answer ({code.name})"
            credentials = ""
    return f"{said}: {details}{credentials}" if details else f"{said}{credentials}"
