"""Can we have the ports we want? Asked of all before any is opened, so that all are named."""

import os
import socket
from collections.abc import Iterable

from mesh_discovery._config import Address


class CannotListenError(Exception):
    """Ports that can't be had; a sentence for each, which names its flag."""


def check_free(addresses: Iterable[Address | None]) -> None:
    """Raise `CannotListenError` if one of these can't be listened on now."""
    refused = []
    for address in addresses:
        if address is None:
            continue
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        try:
            socket.create_server((address.host, address.port), family=family).close()
        except OSError as error:
            refused.append(refusal(address, error))
    if refused:
        raise CannotListenError("\n".join(refused))


def refusal(address: Address, error: OSError) -> str:
    """Say why an address can't be had and what to do."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    return (
        f"{address.flag}: can't listen on {address}: {reason}; "
        "free the port or give another address"
    )
