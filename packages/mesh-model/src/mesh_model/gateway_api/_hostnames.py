"""Which of a route's hostnames a listener has, by the Gateway API's rules.

A wildcard is for names with one label more or several, and not for its own suffix.
"""

from collections.abc import Iterable

ANY = "*"


def intersection(listener: str | None, hostnames: Iterable[str]) -> tuple[str, ...]:
    """Return the hosts that a route serves at a listener; `*`: all. Empty: none in common."""
    of_route = tuple(hostnames)
    if not listener:
        return tuple(dict.fromkeys(of_route)) or (ANY,)
    if not of_route:
        return (listener,)
    found = (_common(listener, each) for each in of_route)
    return tuple(dict.fromkeys(each for each in found if each is not None))


def covers(wider: str, host: str) -> bool:
    """Return whether all that `host` stands for is within `wider`; equal ones cover each other."""
    if wider in (ANY, host):
        return True
    if not wider.startswith("*.") or host == ANY:
        return False
    return host.removeprefix("*").endswith(wider[1:]) and host != wider[2:]


def _common(one: str, other: str) -> str | None:
    if covers(one, other):
        return other
    return one if covers(other, one) else None
