"""Finds conditions in the status of objects by which a controller says that something is wrong."""

from collections.abc import Iterable, Iterator, Mapping

from istio_config.manifests._manifest import Manifest
from mesh_configfile import FieldPath, Problem

_WAYPOINT = frozenset({"istio.io/WaypointBound"})
_ROUTE = frozenset({"Accepted", "Programmed", "ResolvedRefs"})
_GATEWAY_API = "gateway.networking.k8s.io"
_CONDITIONS: Mapping[tuple[str, str], frozenset[str]] = {
    ("", "Service"): _WAYPOINT,
    ("networking.istio.io", "ServiceEntry"): _WAYPOINT,
    ("networking.istio.io", "WorkloadEntry"): _WAYPOINT,
    ("security.istio.io", "AuthorizationPolicy"): frozenset(
        {"ZtunnelAccepted", "WaypointAccepted"}
    ),
    (_GATEWAY_API, "Gateway"): _ROUTE,
    (_GATEWAY_API, "HTTPRoute"): _ROUTE,
    (_GATEWAY_API, "GRPCRoute"): _ROUTE,
}


def negative_conditions(manifests: Iterable[Manifest]) -> Iterator[Problem]:
    """Yield the conditions that say no."""
    for each in manifests:
        wanted = _CONDITIONS.get((each.group, each.kind))
        if wanted is None:
            continue
        for path, condition in _conditions(each):
            name = condition.get("type")
            is_partly = (name, condition.get("reason")) == ("WaypointAccepted", "PartiallyInvalid")
            if name in wanted and (condition.get("status") == "False" or is_partly):
                said = str(condition.get("message") or condition.get("reason") or "no reason")
                yield each.problem(
                    path,
                    f"the controller that wrote this says that it is not {name}: "
                    f"{said.rstrip('.')}; what is said is to be mended, or the status removed",
                    "IST0171",
                )


def _conditions(manifest: Manifest) -> Iterator[tuple[FieldPath, Mapping[str, object]]]:
    places: list[FieldPath] = [("status", "conditions")]
    parents = range(len(manifest.items("status", "parents")))
    places += [("status", "parents", index, "conditions") for index in parents]
    for place in places:
        for index, found in enumerate(manifest.items(*place)):
            if isinstance(found, dict):
                yield (*place, index), found
