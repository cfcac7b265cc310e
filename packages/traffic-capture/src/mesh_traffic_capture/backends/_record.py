"""Facts that are kept in the kernel beside the rules, so that removing them takes no flags."""

from __future__ import annotations

from mesh_traffic_capture._value import value

try:
    # The half of hashlib that needs no OpenSSL, whose library is four megabytes of memory.
    from _blake2 import blake2s
except ImportError:  # a Python that has it elsewhere
    from hashlib import blake2s

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_NAMES: Final = ("digest", "mark", "table", "added")
_MOST_DIGITS: Final = 10


@value
class Record:
    """The comment of a rule that no packet meets; in nft such a comment has 128 bytes at most."""

    digest: str
    """Of the rules; it tells an apply that was cut short, with iptables, from a whole one."""
    mark: int | None = None
    """By which packets are routed to the proxy, if they are."""
    table: int | None = None
    added: frozenset[str] = frozenset()
    """Things beside the rules that were not there before: `six`, or a table of iptables."""

    def __str__(self) -> str:
        """Return the comment."""
        return (
            f"digest={self.digest} mark={self.mark or 0} table={self.table or 0}"
            f" added={','.join(sorted(self.added))}"
        )

    @classmethod
    def parse(cls, text: str) -> Record | None:
        """Return what a comment says; None if it isn't one of ours."""
        words = [word.partition("=") for word in text.split(" ")]
        if tuple(name for name, _, _ in words) != _NAMES:
            return None
        digest, mark, table, added = (written for _, _, written in words)
        numbers = all(
            each.isascii() and each.isdecimal() and len(each) <= _MOST_DIGITS
            for each in (mark, table)
        )
        if len(digest) != len(INTENT) or not numbers:
            return None
        return cls(
            digest=digest,
            mark=int(mark) or None,
            table=int(table) or None,
            added=frozenset(filter(None, added.split(","))),
        )


INTENT: Final = "0" * 32
"""The digest of a record that is written before the rules are."""


def digest(text: str) -> str:
    """Return what tells one text of rules from another."""
    return blake2s(text.encode(), digest_size=16).hexdigest()
