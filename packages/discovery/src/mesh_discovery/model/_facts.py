"""All that is known of a mesh at a moment, wherever it comes from: what a model is made of."""

from dataclasses import dataclass

from mesh_discovery.config._snapshot import Snapshot, snapshot_of

_NOTHING = snapshot_of(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts of all sources at a moment."""

    snapshot: Snapshot = _NOTHING
    """The objects that somebody wrote."""
