"""The status of the token by which the workload proves who it is; never the token itself."""

import time
from collections.abc import Mapping

import certclient

_TIMEOUT_S = 1.0


async def describe_token(
    authority: certclient.IstioCaConfig | None, *, timeout_s: float = _TIMEOUT_S
) -> Mapping[str, object]:
    """Return the token's path, and what is wrong with it or None; empty if no token is used.

    timeout_s: how long the file system has to answer; if it does not, that is the fault.
    """
    if authority is None or authority.token_path is None:
        return {}
    # Imported here: only a person who asks for the status needs them.
    from mesh_identity import TokenFileError, fetch_token, token_fault

    path = authority.token_path
    try:
        token = await fetch_token(path, timeout_s=timeout_s)
    except TokenFileError as error:
        fault: str | None = error.reason
    else:
        fault = "does not exist" if token is None else token_fault(token, now=time.time())
    return {"path": str(path), "fault": fault}
