"""All that is known of a mesh at a moment, wherever it comes from: what a model is made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from istio_config import ConfigObject, Snapshot, snapshot_of, with_objects
from mesh_model.policies._key_sets import NO_KEY_SETS, KeySets
from mesh_model.workloads._service_settings import Place

_NOTHING = snapshot_of(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts of all sources at a moment."""

    snapshot: Snapshot = _NOTHING
    """The objects that somebody wrote."""
    registered: tuple[ConfigObject, ...] = ()
    """The entries of workloads that are there because their proxies are connected."""
    reports: Mapping[Place, bool] = field(default_factory=dict)
    """Whether applications are healthy, where their proxies have said so."""
    addresses: Mapping[str, tuple[str, ...]] | None = None
    """Those of host names of network gateways; None: names are used as names alone."""
    key_sets: KeySets = NO_KEY_SETS
    """Those that were fetched, by which tokens of requests are checked."""

    @property
    def objects(self) -> Snapshot:
        """All objects, the registered entries with them."""
        return with_objects(self.snapshot, self.registered)
