"""What the status says of the token that the workload proves itself by; never the token."""

import time
from collections.abc import Mapping

import certclient

_TIMEOUT_S = 1.0


async def describe_token(
    authority: certclient.IstioCaConfig | None, *, timeout_s: float = _TIMEOUT_S
) -> Mapping[str, object]:
    """Where it is read from, and what is wrong with it, None if nothing; empty if none is used.

    timeout_s: how long its file system has to answer; that it does not is a fault, too.
    """
    if authority is None or authority.token_path is None:
        return {}
    # Here, because only a person who asks for the status needs them.
    from mesh_identity import TokenFileError, fetch_token, token_fault

    path = authority.token_path
    try:
        token = await fetch_token(path, timeout_s=timeout_s)
    except TokenFileError as error:
        fault: str | None = error.reason
    else:
        fault = "does not exist" if token is None else token_fault(token, now=time.time())
    return {"path": str(path), "fault": fault}
