"""Checks that all ports are free before any is opened, so that one error names all."""

import os
import socket
from collections.abc import Iterable

from mesh_discovery._config import Address
from mesh_listening import ListenError, listening_on


class CannotListenError(Exception):
    """Ports that can't be listened on; a sentence for each, which names its flag."""


def check_free(addresses: Iterable[Address | None]) -> None:
    """Raise `CannotListenError` if one of these can't be listened on now."""
    refused = []
    for address in addresses:
        if address is None:
            continue
        try:
            with listening_on(address.host, address.port):
                pass
        except ListenError as error:
            refused.append(refusal(address, error))
    if refused:
        raise CannotListenError("\n".join(refused))


def refusal(address: Address, error: ListenError) -> str:
    """Return the sentence for an address that can't be listened on: the reason and the remedy."""
    cause = error.__cause__
    if isinstance(cause, socket.gaierror):
        return (
            f"{address.flag}: can't listen on {address}: its host name can't be resolved "
            f"({cause.strerror}); give an IP address, as 127.0.0.1:{address.port}"
        )
    number = cause.errno if isinstance(cause, OSError) else None
    reason = os.strerror(number) if number else str(error)
    return (
        f"{address.flag}: can't listen on {address}: {reason}; "
        "free the port or give another address"
    )
