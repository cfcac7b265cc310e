"""Host names, resolved in a thread that the program does not wait for when it ends.

The event loop's own resolver runs in threads that the interpreter joins at exit, so that a
resolver that does not answer would keep the program waiting.
"""

import ipaddress
import socket
from functools import partial
from pathlib import Path
from urllib.parse import quote

from mesh_filewatch import ReadTimedOut, ThreadPool, run_in_thread

_RESOLVER = Path("/resolver")
"""Used as the path of lookups: each directory below it has a few threads."""
_THREADS = ThreadPool()
"""Of lookups alone: a resolver that does not answer takes no thread from files."""
_TIMEOUT_S = 4.0


class HostNotResolved(Exception):
    """A host name without an address; str() is the reason, as part of a sentence."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"its host name cannot be resolved ({reason})")


async def fetch_addresses(
    host: str, *, timeout_s: float = _TIMEOUT_S, for_whom: str = ""
) -> tuple[str, ...]:
    """Return a host's IP addresses, one at least, in the resolver's order.

    Of two lookups of one name at a time only one asks the resolver.

    for_whom: the one who named the host. A name whose servers are silent keeps a thread for longer
        than `timeout_s`; so the lookups for each have a few threads of their own.

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
        found = await run_in_thread(
            work,
            path=_RESOLVER / quote(for_whom, safe="") / "names",
            key=(host, for_whom),
            timeout_s=timeout_s,
            pool=_THREADS,
        )
    except ReadTimedOut:
        raise HostNotResolved(f"no answer from the resolver within {timeout_s:g} s") from None
    except UnicodeError:
        raise HostNotResolved("it is no host name") from None
    except OSError as error:
        raise HostNotResolved(error.strerror or str(error)) from error
    return tuple(dict.fromkeys(str(place[0]) for *_, place in found))
