"""Facts that are kept in the kernel beside the rules, so that removing them takes no flags."""

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

_FORM: Final = re.compile(
    r"digest=(?P<digest>[0-9a-f]{32}) mark=(?P<mark>\d{1,10}) table=(?P<table>\d{1,10})"
    r" added=(?P<added>[a-z0-9,-]{0,60})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
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
    def parse(cls, text: str) -> "Record | None":
        """Return what a comment says; None if it isn't one of ours."""
        found = _FORM.fullmatch(text)
        if found is None:
            return None
        return cls(
            digest=found["digest"],
            mark=int(found["mark"]) or None,
            table=int(found["table"]) or None,
            added=frozenset(filter(None, found["added"].split(","))),
        )


INTENT: Final = "0" * 32
"""The digest of a record that is written before the rules are."""


def digest(text: str) -> str:
    """Return what tells one text of rules from another."""
    return sha256(text.encode()).hexdigest()[:32]
