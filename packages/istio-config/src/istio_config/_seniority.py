"""Which of two objects is the older one, by what files can say of it.

Age decides who has a host, a gateway's port, a certificate or a route that two objects want. In
Kubernetes it is the API server's time, which no user can set. In a file `creationTimestamp` is the
word of its author, and one namespace must not date itself before another. So between namespaces the
root namespace comes first, then the namespace whose own object (Namespace, which is of no
namespace) is the oldest, then the first by name. Within a namespace its own timestamps count.

Where one hand writes all files, as it is with exports of a cluster, all timestamps can be believed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from istio_config.kinds.mesh_config import MeshConfigSpec

_UNDATED = "9999"
_BETWEEN = "\0"
"""Comes before all that is in the name of a namespace."""


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
