"""What the status says of the token that the workload proves itself by; never the token."""

import time
from collections.abc import Mapping

import certclient

_MAX_BYTES = 64 * 1024
_TIMEOUT_S = 1.0


async def described_token(authority: certclient.IstioCaConfig | None) -> Mapping[str, object]:
    """Where it is read from, and what is wrong with it, None if nothing; empty if none is used."""
    if authority is None or authority.token_path is None:
        return {}
    # Here, because only a person who asks for the status needs them.
    from mesh_filewatch import fetch_bytes
    from mesh_identity import token_fault

    path = authority.token_path
    try:
        content = await fetch_bytes(path, max_bytes=_MAX_BYTES, timeout_s=_TIMEOUT_S)
    except FileNotFoundError:
        fault: str | None = "does not exist"
    except OSError as error:
        fault = f"can't be read: {error.strerror}"
    else:
        fault = token_fault(content.decode("ascii", "replace"), now=time.time())
    return {"path": str(path), "fault": fault}
