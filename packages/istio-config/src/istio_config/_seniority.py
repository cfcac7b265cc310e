"""Which of two objects is older, as Istio resolves conflicts: the older one wins.

So age decides which of two objects has a host, a port of a gateway, a certificate or a route. In
Kubernetes the API server sets it. In a file the author writes `creationTimestamp`, and must not win
against other namespaces by an early date. So between namespaces the root namespace comes first,
then the one with the oldest Namespace object, which belongs to no namespace, then the first by
name. Timestamps count within a namespace.

Where one author writes all files, as in an export of a cluster, all timestamps can be believed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from istio_config.kinds.mesh_config import MeshConfigSpec

_UNDATED = "9999"
_BETWEEN = "\0"
"""Sorts before every character of a namespace's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seniority:
    """The order of namespaces.

    dates: `creationTimestamp` of Namespace objects, by name. believes: those of all objects count.
    """

    root_namespace: str = MeshConfigSpec().root_namespace
    dates: Mapping[str, str] = field(default_factory=dict)
    believes: bool = False

    def age(self, namespace: str, created: str) -> str:
        """Return a text that compares as objects do, oldest first; created: "" for undated ones."""
        if self.believes:
            return created
        rank = "0" if namespace == self.root_namespace else "1"
        date = self.dates.get(namespace) or _UNDATED
        return _BETWEEN.join((rank, date, namespace, created or _UNDATED))


BY_NAME = Seniority()


def date_of(age: str) -> str:
    """Return the `creationTimestamp` in an age; "" for an undated object's."""
    date = age.rpartition(_BETWEEN)[2]
    return "" if date == _UNDATED else date
