"""What a family of Envoys has besides its processes: files, and whoever answers for a dead one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from envoy_supervisor.handover._dead_parent import Claim, StandIn, nothing_kept
from envoy_supervisor.handover._hot_restart_files import id_file, release, sockets

log = logging.getLogger(__name__)


def _nothing() -> None:
    return


class Families:
    """The families of one directory; at most one stand-in each, for the newest that is dead."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: set[int] = set()
        self._stand_ins: dict[int, StandIn] = {}

    def add(self, family: int) -> None:
        """A process of that family is about to start."""
        self._known.add(family)

    def stand_in(
        self,
        family: int,
        epoch: int,
        *,
        claim: Claim = nothing_kept,
        live: Callable[[], None] = _nothing,
        owed: bool = False,
    ) -> None:
        """Answer for the dead process of that epoch for as long as its successor may ask.

        claim: which listening sockets it left. live: called when the successor serves. owed: the
        successor serves already, and may wait for an answer.
        """
        at = sockets(id_file(self._directory, family), epoch)
        if at is None:
            return
        if (before := self._stand_ins.pop(family, None)) is not None:
            before.close()
        substitute = StandIn(at, claim=claim, live=live, owed=owed)
        try:
            substitute.open()
        except OSError as error:
            log.warning("cannot answer for the old envoy", extra={"reason": str(error)})
            return
        self._stand_ins[family] = substitute

    def keep_only(self, needed: set[int]) -> None:
        """Remove what the other families leave; none of their processes runs."""
        for family in self._known - needed:
            if (substitute := self._stand_ins.pop(family, None)) is not None:
                substitute.close()
            release(id_file(self._directory, family))
        self._known &= needed
