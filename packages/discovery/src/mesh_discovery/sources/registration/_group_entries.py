"""The WorkloadEntry of a proxy that registers itself as one of a WorkloadGroup.

Names and annotations are those of Istio's autoregistration. What the entry says is the group's
word: its labels select services, subsets and policies, and `security.istio.io/tlsMode` among them
says whether clients encrypt. So none of the labels that a proxy gives itself is in its entry, where
Istio lets them win; of the node, network and locality count where the template has none.
"""

from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from istio_config import ConfigObject
from istio_config.kinds.workload_entry import WORKLOAD_ENTRY, WorkloadEntrySpec
from istio_config.kinds.workload_group import (
    WorkloadGroupSpec,
    group_labels,
    is_allowed,
    registering_account,
)
from mesh_model import HEALTH_CHECKED

GROUP = "AUTO_REGISTER_GROUP"
"""The metadata of a node that names the group."""
GROUP_ANNOTATION = "istio.io/autoRegistrationGroup"
CONNECTED_ANNOTATION = "istio.io/connectedAt"
_LONGEST_NAME = 253


class RegistrantKey(NamedTuple):
    """The identity of a registrant: there is one entry for an address in a group."""

    namespace: str
    group: str
    address: str


class Registrant(NamedTuple):
    """A proxy that may register, and the part of it that its entry is built from.

    account: the service account that it has proved to be. address: one that it may have, by its
    connection, or by_range: by those that its group allows.
    """

    namespace: str
    group: str
    account: str
    address: str
    network: str = ""
    locality: str = ""
    by_range: bool = False

    @property
    def key(self) -> RegistrantKey:
        """Namespace, group and address."""
        return RegistrantKey(self.namespace, self.group, self.address)

    @property
    def name(self) -> str:
        """The name of its entry: of a long one the end is kept, which tells entries apart."""
        parts = (self.group, self.address, self.network)
        name = "-".join(each for each in parts if each).replace(":", "-")
        return name[-_LONGEST_NAME:].lstrip("-.")


def group_entry(
    registrant: Registrant, group: ConfigObject, *, connected_at: float
) -> ConfigObject | None:
    """Make the entry of a proxy; None if the group, as it is now, does not let it register.

    connected_at: in Unix seconds.
    """
    spec = group.spec if isinstance(group.spec, WorkloadGroupSpec) else WorkloadGroupSpec()
    if registering_account(spec) != registrant.account:
        return None
    if registrant.by_range and not is_allowed(registrant.address, group.annotations):
        return None
    template = spec.template or WorkloadEntrySpec()
    labels = group_labels(spec)
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
            labels=labels,
            network=template.network or registrant.network,
            locality=template.locality or registrant.locality,
            service_account=registrant.account,
        ),
        labels=tuple(sorted(labels.items())),
        annotations=tuple(sorted(annotations.items())),
        created=datetime.fromtimestamp(connected_at, UTC).isoformat(),
        origin=group.origin,
    )
