"""The input of a model: all that the sources know of a mesh at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from istio_config import ConfigObject, Snapshot, snapshot_of, with_objects
from mesh_model.policies._key_sets import NO_KEY_SETS, KeySets
from mesh_model.workloads._service_settings import EndpointKey

_NOTHING = snapshot_of(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts of all sources at a moment."""

    snapshot: Snapshot = _NOTHING
    """The objects of files, clusters and programs."""
    registered: tuple[ConfigObject, ...] = ()
    """WorkloadEntries of the proxies that registered themselves by WorkloadGroup."""
    reports: Mapping[EndpointKey, bool] = field(default_factory=dict)
    """Whether each application is healthy, where its proxy probes it and has reported."""
    addresses: Mapping[str, tuple[str, ...]] | None = None
    """The addresses of network gateways' host names; None: names are not looked up."""
    key_sets: KeySets = NO_KEY_SETS
    """The JSON Web Key Sets that were fetched for RequestAuthentications."""

    @property
    def objects(self) -> Snapshot:
        """All objects, the registered entries with them."""
        return with_objects(self.snapshot, self.registered)
