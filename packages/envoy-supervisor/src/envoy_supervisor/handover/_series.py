"""The resources of each series of Envoys: its hot restart files, and the responder for a dead one.

A series are the Envoys that share a base id and take over from each other, epoch after epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from envoy_supervisor.handover._dead_parent_responder import (
    DeadParentResponder,
    PassSocket,
    no_sockets,
)
from envoy_supervisor.handover._hot_restart_files import (
    hot_restart_sockets,
    id_file,
    release_series,
)

log = logging.getLogger(__name__)


def _nothing() -> None:
    return


class SeriesResources:
    """The series of one directory; each has at most one responder, for its newest dead Envoy."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: set[int] = set()
        self._responders: dict[int, DeadParentResponder] = {}

    def add(self, series: int) -> None:
        """Remembers a series of which a process is about to start."""
        self._known.add(series)

    def answer_for_dead_parent(
        self,
        series: int,
        epoch: int,
        *,
        pass_socket: PassSocket = no_sockets,
        on_child_serves: Callable[[], None] = _nothing,
        child_serves_already: bool = False,
    ) -> None:
        """Answer for the dead process of that epoch for as long as its child may ask.

        The parameters are those of `DeadParentResponder`.
        """
        at = hot_restart_sockets(id_file(self._directory, series), epoch)
        if at is None:
            return
        if (before := self._responders.pop(series, None)) is not None:
            before.close()
        responder = DeadParentResponder(
            at,
            pass_socket=pass_socket,
            on_child_serves=on_child_serves,
            child_serves_already=child_serves_already,
        )
        try:
            responder.open()
        except OSError as error:
            log.warning("cannot answer for the dead envoy", extra={"reason": str(error)})
            return
        self._responders[series] = responder

    def release_all_but(self, needed: set[int]) -> None:
        """Remove the files and responders of all other series, of which no process runs."""
        for series in self._known - needed:
            if (responder := self._responders.pop(series, None)) is not None:
                responder.close()
            release_series(id_file(self._directory, series))
        self._known &= needed
