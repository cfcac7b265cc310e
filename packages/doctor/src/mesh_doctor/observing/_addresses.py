"""Host names, resolved in a thread that the program does not wait for when it ends.

The event loop's own resolver runs in threads that the interpreter joins at exit, so that a
resolver that does not answer would keep the command waiting.
"""

import ipaddress
import socket
from functools import partial
from pathlib import Path

from mesh_filewatch import ReadTimedOut, run_in_thread

_RESOLV_CONF = Path("/etc/resolv.conf")
_TIMEOUT_S = 4.0


async def addresses_of(host: str, *, timeout_s: float = _TIMEOUT_S) -> tuple[str, ...]:
    """Return a host's addresses, one at least; raises `socket.gaierror`."""
    try:
        return (str(ipaddress.ip_address(host)),)
    except ValueError:
        pass
    work = partial(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM)
    try:
        found = await run_in_thread(work, path=_RESOLV_CONF, key=host, timeout_s=timeout_s)
    except ReadTimedOut:
        raise socket.gaierror(
            socket.EAI_AGAIN, f"no answer from the resolver within {timeout_s:g} s"
        ) from None
    except UnicodeError:
        raise socket.gaierror(socket.EAI_NONAME, "it is no host name") from None
    return tuple(dict.fromkeys(str(place[0]) for *_, place in found))
