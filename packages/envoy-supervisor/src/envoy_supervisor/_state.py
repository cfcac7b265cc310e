"""The life of one Envoy process as a table of allowed moves."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class EnvoyState(StrEnum):
    """How far the process is."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    EXITED = "exited"


MOVES: Mapping[EnvoyState, frozenset[EnvoyState]] = {
    EnvoyState.STARTING: frozenset({EnvoyState.READY, EnvoyState.DRAINING, EnvoyState.EXITED}),
    EnvoyState.READY: frozenset({EnvoyState.DRAINING, EnvoyState.EXITED}),
    EnvoyState.DRAINING: frozenset({EnvoyState.EXITED}),
    EnvoyState.EXITED: frozenset(),
}


def moved(state: EnvoyState, wanted: EnvoyState) -> EnvoyState:
    """The state after a wish to move: moves that are not allowed change nothing."""
    return wanted if wanted in MOVES[state] else state
