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
    {
        ("", "Service"),
        ("core", "Service"),
        ("networking.istio.io", "ServiceEntry"),
        (_GATEWAY_API, "GatewayClass"),
    }
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
    object; if there are any, only their proxies are selected. is_for_waypoints: whether it is for
    waypoints alone, of which there are none: no proxy is selected.
    """

    labels: Mapping[str, str]
    gateways: tuple[str, ...] = ()
    is_for_waypoints: bool = False


class Selecting(Protocol):
    """A spec that chooses workloads."""

    @property
    def selection(self) -> Selection:
        """The workloads that it is for."""


def selection_of(selector: WorkloadSelector | None, refs: tuple[TargetRef, ...]) -> Selection:
    """Return the selection of a selector and of references."""
    return selection_by(selector.match_labels if selector is not None else {}, refs)


def selection_by(labels: Mapping[str, str], refs: tuple[TargetRef, ...]) -> Selection:
    """Return the selection of labels and of references."""
    gateways = tuple(name for _, name in gateway_references(refs))
    return Selection(labels, gateways, is_for_waypoints=bool(refs) and not gateways)


def gateway_references(
    refs: tuple[TargetRef, ...], single: TargetRef | None = None
) -> Iterator[tuple[FieldPath, str]]:
    """Yield the names of the Gateways that are referred to, with their fields below the spec."""
    for here, each in _references(refs, single):
        if (each.group, each.kind) not in _OF_WAYPOINTS:
            yield (*here, "name"), each.name


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
    older way to give one reference.
    """
    references = _references(refs, single)
    if single is not None and refs:
        yield ("targetRef",), "stands beside targetRefs: keep one"
    if labels is not None:
        yield from selector_mistakes(labels, path)
        if references:
            yield references[0][0][:1], f"stands beside {path[0]}: keep one"
    for here, each in references:
        if (each.group, each.kind) not in {*_OF_WAYPOINTS, (_GATEWAY_API, "Gateway")}:
            yield (
                (*here, "kind"),
                f'"{each.group}/{each.kind}" can\'t be referred to; use {_GATEWAY_API}/Gateway',
            )
        if each.namespace:
            yield (*here, "namespace"), f'must be left out: it is the object\'s own, "{namespace}"'


def selection_warnings(
    refs: tuple[TargetRef, ...], single: TargetRef | None = None
) -> Iterator[Finding]:
    """Yield the references that have no effect: those to what waypoints stand before."""
    for here, each in _references(refs, single):
        if (each.group, each.kind) in _OF_WAYPOINTS:
            yield (
                (*here, "kind"),
                (
                    f"{each.kind} is for waypoints, which are not supported here: it has no "
                    "effect; use a selector"
                ),
            )


def _references(
    refs: tuple[TargetRef, ...], single: TargetRef | None
) -> list[tuple[FieldPath, TargetRef]]:
    found: list[tuple[FieldPath, TargetRef]] = [
        (("targetRefs", index), each) for index, each in enumerate(refs)
    ]
    return found if single is None else [*found, (("targetRef",), single)]
