"""Why a control plane ended a stream before its first answer, in words."""

from __future__ import annotations

import grpc


def refusal(code: grpc.StatusCode, details: str, *, shown: str) -> str:
    """Return the reason as part of a sentence.

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
