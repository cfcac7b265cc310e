"""The workloads that a policy, a Telemetry or an EnvoyFilter is for.

An object without a selection is for its whole namespace; in the root namespace, for the whole mesh.
A reference to a Gateway (of the Gateway API, in the same namespace) selects the proxies of it.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

import msgspec

from istio_config.kinds.checks import selector_mistakes
from istio_config.kinds.fields import Labels, SpecFields, Text
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding

_GATEWAY_API = "gateway.networking.k8s.io"
_OF_WAYPOINTS = frozenset(
    {("", "Service"), ("core", "Service"), ("networking.istio.io", "ServiceEntry")}
)


class WorkloadSelector(SpecFields, frozen=True):
    """Workloads by their labels; `type.istio.io/WorkloadSelector`."""

    match_labels: Labels = msgspec.field(default_factory=dict)


class TargetRef(SpecFields, frozen=True):
    """An object that an Istio policy is attached to, in its own namespace."""

    kind: Text
    name: Text
    group: str = ""
    namespace: str = ""


class Selection(NamedTuple):
    """The workloads that an object selects.

    labels: those that a workload must have. gateways: the names of Gateways in the namespace of the
    object; if there are any, only their proxies are selected.
    """

    labels: Mapping[str, str]
    gateways: tuple[str, ...] = ()


class Selecting(Protocol):
    """A spec that chooses workloads."""

    @property
    def selection(self) -> Selection:
        """The workloads that it is for."""


def selection_of(selector: WorkloadSelector | None, refs: tuple[TargetRef, ...]) -> Selection:
    """Return the selection of a selector and of references to Gateways."""
    labels = selector.match_labels if selector is not None else {}
    return Selection(labels, tuple(each.name for each in refs))


def selection_mistakes(
    labels: Mapping[str, str] | None,
    refs: tuple[TargetRef, ...],
    namespace: str,
    *,
    path: FieldPath = ("selector", "matchLabels"),
    single: TargetRef | None = None,
) -> Iterator[Finding]:
    """Yield what is wrong with the selection of an object in a namespace.

    labels: None if there is no selector. path: that of the labels. single: the `targetRef`, the
    older way to give one reference. Only Gateways can be referred to: the other kinds are for
    waypoints, which are not served.
    """
    references: list[tuple[FieldPath, TargetRef]] = [
        (("targetRefs", index), each) for index, each in enumerate(refs)
    ]
    if single is not None:
        if refs:
            yield ("targetRef",), "stands beside targetRefs: keep one"
        references.append((("targetRef",), single))
    if labels is not None:
        yield from selector_mistakes(labels, path)
        if references:
            yield references[0][0][:1], f"stands beside {path[0]}: keep one"
    for here, each in references:
        if (each.group, each.kind) in _OF_WAYPOINTS:
            yield (
                (*here, "kind"),
                f"{each.kind} is for waypoints, which are not supported; use a selector",
            )
        elif (each.group, each.kind) != (_GATEWAY_API, "Gateway"):
            yield (
                (*here, "kind"),
                f'"{each.group}/{each.kind}" can\'t be referred to; use {_GATEWAY_API}/Gateway',
            )
        if each.namespace not in ("", namespace):
            yield (*here, "namespace"), f'must be the object\'s own, "{namespace}"'
