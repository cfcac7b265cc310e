"""Host names with wildcards: which hosts a pattern has, and which of two patterns is narrower.

A pattern is a host name, `*`, or a name that begins with `*`, which stands for any text that is not
empty: `*.a.example` has `x.a.example` and `x.y.a.example`, and not `a.example`. All are in lower
case here.
"""


def overlaps(one: str, other: str) -> bool:
    """Return whether two patterns have a host in common."""
    return has(one, other) or has(other, one)


def has(pattern: str, host: str) -> bool:
    """Return whether a pattern has a host, or all hosts of another pattern."""
    if not pattern.startswith("*"):
        return pattern == host
    if host.startswith("*"):
        return host.endswith(pattern[1:])
    return len(host) >= len(pattern) and host.endswith(pattern[1:])


def narrower(one: str, other: str) -> str | None:
    """Return the pattern of the hosts that two patterns both have; None if there are none."""
    if has(one, other):
        return other
    return one if has(other, one) else None
