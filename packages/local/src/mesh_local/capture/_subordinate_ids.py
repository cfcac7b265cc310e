"""The ids that a user other than root may use besides its own, for a namespace of users.

An Envoy has to have another group than the programs whose connections are redirected to it. The
kernel lets a user map its own id alone; `newuidmap` and `newgidmap` map the ranges that
/etc/subuid and /etc/subgid give to a user. https://man7.org/linux/man-pages/man5/subuid.5.html
"""

from collections.abc import Collection
from dataclasses import dataclass

NEEDED = 65536
"""As many as systems give to a user: then each id of a usual /etc/passwd is there."""


@dataclass(frozen=True, slots=True)
class IdRange:
    """Subordinate ids of a user."""

    first: int
    count: int


def find_range(text: str, owners: Collection[str]) -> IdRange | None:
    """Return the first range of a user that is large enough, in the text of such a file.

    owners: the user's name, and its id as text.
    """
    for line in text.splitlines():
        owner, _, numbers = line.strip().partition(":")
        first, _, count = numbers.partition(":")
        if owner in owners and first.isdecimal() and count.isdecimal() and int(count) >= NEEDED:
            return IdRange(int(first), int(count))
    return None


def first_free(text: str) -> int:
    """Return the first id behind all ranges of such a file."""
    ends = [0]
    for line in text.splitlines():
        first, _, count = line.strip().partition(":")[2].partition(":")
        if first.isdecimal() and count.isdecimal():
            ends.append(int(first) + int(count))
    return max(ends)


def mapping(own: int, subordinate: IdRange) -> tuple[str, ...]:
    """Return the arguments of `newuidmap`: the own id is 0 inside, the others follow."""
    return ("0", str(own), "1", "1", str(subordinate.first), str(subordinate.count))
