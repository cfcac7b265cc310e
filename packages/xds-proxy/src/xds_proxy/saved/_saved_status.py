"""The status of the saved configuration."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec


class SavedType(msgspec.Struct, frozen=True, kw_only=True):
    """The saved resources of one type: their number, and the size of their file."""

    count: int
    bytes: int


class SavedStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The saved files, and what is wrong with them.

    directory: where. current_at: until when it was known to be the newest; None if nothing is
        saved. types: by type URL.
    problem: why it is not saved, or not used; None if nothing is wrong.
    withheld: names of resources that are left out because they hold a key or have a
        time to live; some of them.
    writes: how often files were written. waiting_bytes: what is to be written, as it is kept.
    """

    directory: str
    current_at: datetime | None = None
    types: Mapping[str, SavedType]
    problem: str | None = None
    withheld: tuple[str, ...] = ()
    writes: int = 0
    waiting_bytes: int = 0
