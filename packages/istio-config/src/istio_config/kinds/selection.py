"""The workloads that a policy, a Telemetry or an EnvoyFilter is for.

Without a selection it is for all of its namespace; in the root namespace, for all of the mesh. A
reference to a Gateway is for the proxies of that Gateway (Gateway API) in the object's namespace.
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
    """The choice of workloads of an object.

    labels: that workloads must have. gateways: names of Gateways of the Gateway API, in the
    object's namespace; if there are some, it is for their proxies alone.
    """

    labels: Mapping[str, str]
    gateways: tuple[str, ...] = ()


class Selecting(Protocol):
    """A spec that chooses workloads."""

    @property
    def selection(self) -> Selection:
        """The workloads that it is for."""


def selection_of(selector: WorkloadSelector | None, refs: tuple[TargetRef, ...]) -> Selection:
    """Return the choice that a selector and references to Gateways make."""
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
    """Yield what is wrong with a choice of workloads, given in an object of a namespace.

    labels: None if there is no selector. path: of the labels. single: in `targetRef`, the
    older way to give one. Gateways alone can be referred to: other kinds are for waypoints, which
    are not served.
    """
    places: list[tuple[FieldPath, TargetRef]] = [
        (("targetRefs", index), each) for index, each in enumerate(refs)
    ]
    if single is not None:
        if refs:
            yield ("targetRef",), "stands beside targetRefs: keep one"
        places.append((("targetRef",), single))
    if labels is not None:
        yield from selector_mistakes(labels, path)
        if places:
            yield places[0][0][:1], f"stands beside {path[0]}: keep one"
    for here, each in places:
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
