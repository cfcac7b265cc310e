"""Host names, resolved in a thread that the program does not wait for when it ends.

The event loop's own resolver runs in threads that the interpreter joins at exit, so that a
resolver that does not answer would keep the program waiting.
"""

import ipaddress
import socket
from functools import partial
from pathlib import Path

from mesh_filewatch import ReadTimedOut, run_in_thread

_RESOLVER = Path("/resolver/names")
"""Used as the path of lookups, so that their threads are counted apart from those of files."""
_TIMEOUT_S = 4.0


class HostNotResolved(Exception):
    """A host name without an address; str() is the reason, as part of a sentence."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"its host name cannot be resolved ({reason})")


async def fetch_addresses(host: str, *, timeout_s: float = _TIMEOUT_S) -> tuple[str, ...]:
    """Return a host's IP addresses, one at least, in the resolver's order.

    Of two lookups of one name at a time only one asks the resolver.

    Raises:
        HostNotResolved: there is none, or no answer within `timeout_s`.
    """
    try:
        return (str(ipaddress.ip_address(host)),)
    except ValueError:
        pass
    # A text would load the codec for names of other scripts, with its tables.
    name = host.encode() if host.isascii() else host
    work = partial(socket.getaddrinfo, name, None, type=socket.SOCK_STREAM)
    try:
        found = await run_in_thread(work, path=_RESOLVER, key=host, timeout_s=timeout_s)
    except ReadTimedOut:
        raise HostNotResolved(f"no answer from the resolver within {timeout_s:g} s") from None
    except UnicodeError:
        raise HostNotResolved("it is no host name") from None
    except OSError as error:
        raise HostNotResolved(error.strerror or str(error)) from error
    return tuple(dict.fromkeys(str(place[0]) for *_, place in found))
