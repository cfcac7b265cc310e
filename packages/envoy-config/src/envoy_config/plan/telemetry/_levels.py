"""The Telemetry objects of a workload, those of the widest reach first; later ones override."""

from collections.abc import Sequence
from itertools import islice

from istio_config.kinds.telemetry import TELEMETRY, ModeMatch, TelemetrySpec, WorkloadMode
from mesh_model import Workload, WorkloadRule, WorkloadRules


def levels(
    rules: WorkloadRules, workload: Workload, *, root_namespace: str
) -> tuple[TelemetrySpec, ...]:
    """Return the objects for a workload.

    First the oldest of the root namespace for all workloads, then the oldest for all workloads of
    its own namespace, then all there that choose it, oldest first.
    """
    found = rules.applying(TELEMETRY, workload)
    of_mesh = first_for_all(found, root_namespace)
    of_namespace = first_for_all(found, workload.namespace)
    chosen = [
        each for each in found if each.namespace == workload.namespace and not is_for_all(each)
    ]
    listed = dict.fromkeys((*of_mesh, *of_namespace, *chosen))
    return tuple(each.spec for each in listed)


def is_about(match: ModeMatch | None, mode: WorkloadMode) -> bool:
    """Return whether an entry is about calls (CLIENT), or about callers (SERVER)."""
    return match is None or match.mode in (WorkloadMode.CLIENT_AND_SERVER, mode)


def is_for_all(rule: WorkloadRule[TelemetrySpec]) -> bool:
    """Return whether an object is for all workloads that its namespace reaches."""
    selection = rule.spec.selection
    return not selection.labels and not selection.gateways


def first_for_all(
    rules: Sequence[WorkloadRule[TelemetrySpec]], namespace: str
) -> tuple[WorkloadRule[TelemetrySpec], ...]:
    """Return the oldest object of a namespace that is for all workloads, if there is one."""
    found = (each for each in rules if each.namespace == namespace and is_for_all(each))
    return tuple(islice(found, 1))
