"""The WorkloadEntry of a proxy that registers itself as one of a WorkloadGroup.

Source: Istio's autoregistration, for names, labels and annotations.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from mesh_discovery.config._objects import ConfigObject
from mesh_discovery.config.kinds._workload_entry import (
    WORKLOAD_ENTRY,
    WorkloadEntrySpec,
)
from mesh_discovery.config.kinds._workload_group import WorkloadGroupSpec
from mesh_discovery.model.registry._workload_endpoints import HEALTH_CHECKED

GROUP = "AUTO_REGISTER_GROUP"
"""The metadata of a node that names the group."""
GROUP_ANNOTATION = "istio.io/autoRegistrationGroup"
CONNECTED_ANNOTATION = "istio.io/connectedAt"
_LONGEST_NAME = 253


class Registrant(NamedTuple):
    """The part of a proxy that its entry is made of."""

    namespace: str
    group: str
    address: str
    network: str
    locality: str
    labels: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        """The name of its entry: of a long one the end is kept, which tells entries apart."""
        parts = (self.group, self.address, self.network)
        name = "-".join(each for each in parts if each).replace(":", "-")
        return name[-_LONGEST_NAME:].lstrip("-.")


def group_entry(
    registrant: Registrant, group: ConfigObject, *, connected_at: float
) -> ConfigObject:
    """Make the entry of a proxy; connected_at: in Unix seconds."""
    spec = group.spec if isinstance(group.spec, WorkloadGroupSpec) else WorkloadGroupSpec()
    template = spec.template or WorkloadEntrySpec()
    labels: Mapping[str, str] = {
        **template.labels,
        **spec.metadata.labels,
        **dict(registrant.labels),
    }
    annotations = {
        **spec.metadata.annotations,
        GROUP_ANNOTATION: registrant.group,
        CONNECTED_ANNOTATION: datetime.fromtimestamp(connected_at, UTC).isoformat(),
    }
    if spec.probe is not None:
        annotations[HEALTH_CHECKED] = "true"
    return ConfigObject(
        kind=WORKLOAD_ENTRY.name,
        group=WORKLOAD_ENTRY.group,
        namespace=registrant.namespace,
        name=registrant.name,
        spec=msgspec.structs.replace(
            template,
            address=registrant.address,
            labels=dict(labels),
            network=registrant.network or template.network,
            locality=registrant.locality or template.locality,
        ),
        labels=tuple(sorted(labels.items())),
        annotations=tuple(sorted(annotations.items())),
        created=datetime.fromtimestamp(connected_at, UTC).isoformat(),
        file=group.file,
        line=group.line,
    )
