"""Applies the patches of a proxy to its listeners, clusters and routes, each as one resource."""

from collections.abc import Iterator
from functools import partial

from envoy_config.generate._messages import cluster_pb2, listener_pb2, route_pb2
from envoy_config.patch._acceptance import listener_mistakes, route_mistakes
from envoy_config.patch._cluster_acceptance import cluster_mistakes
from envoy_config.patch._clusters import may_match_cluster, patch_cluster, side_of_cluster
from envoy_config.patch._listeners import listener_stage, patch_listener, side_of_listener
from envoy_config.patch._resources import Outcome, Sort, patched
from envoy_config.patch._routes import RouteSide, patch_routes, route_stage
from envoy_config.plan.policies._patches import Patch
from istio_config.envoy_api import constraint_mistakes
from istio_config.kinds.envoy_filter import ApplyTo, Context

_Cluster = cluster_pb2.Cluster
_Listener = listener_pb2.Listener
_Routes = route_pb2.RouteConfiguration
Patches = tuple[Patch, ...]

_CLUSTERS = Sort[_Cluster](
    apply=patch_cluster, mistakes=cluster_mistakes, name_of=lambda each: each.name
)


def for_listeners(patches: Patches) -> Patches:
    """Return the patches that change listeners, in the order of work."""
    changing = (each for each in patches if not (each.apply_to is ApplyTo.LISTENER and each.adds))
    return tuple(sorted(changing, key=listener_stage))


def for_listener(patches: Patches, name: str) -> Patches:
    """Return those of patches that may be for a listener of this name."""
    return tuple(each for each in patches if _may_match_listener(each, name))


def patched_listener(
    listener: _Listener, patches: Patches, *, at_gateway: bool
) -> Outcome[_Listener]:
    """Apply patches, in the order of work, to a listener."""
    side = RouteSide(side_of_listener(listener, at_gateway=at_gateway))
    sort = Sort[_Listener](
        apply=partial(patch_listener, side=side),
        mistakes=listener_mistakes,
        name_of=lambda each: each.name,
    )
    return patched(listener, patches, sort)


def for_clusters(patches: Patches) -> Patches:
    """Return the patches that change clusters."""
    return tuple(each for each in patches if not each.adds)


def for_cluster(patches: Patches, name: str, *, at_gateway: bool) -> Patches:
    """Return those of patches that may be for a cluster of this name."""
    side = side_of_cluster(name, at_gateway=at_gateway)
    return tuple(each for each in patches if each.is_for(side) and may_match_cluster(each, name))


def patched_cluster(cluster: _Cluster, patches: Patches) -> Outcome[_Cluster]:
    """Apply patches of the cluster's side to it."""
    return patched(cluster, patches, _CLUSTERS)


def for_routes(patches: Patches) -> Patches:
    """Return patches of route configurations in the order of work."""
    return tuple(sorted(patches, key=route_stage))


def patched_routes(routes: _Routes, patches: Patches, side: RouteSide) -> Outcome[_Routes]:
    """Apply patches, in the order of work, to a route configuration that is asked for by name."""
    sort = Sort[_Routes](
        apply=partial(patch_routes, side=side),
        mistakes=route_mistakes,
        name_of=lambda each: each.name,
    )
    return patched(routes, patches, sort)


def routes_side(
    target_ports: tuple[tuple[int, tuple[int, ...]], ...], *, at_gateway: bool
) -> RouteSide:
    """Return the side of routes that are asked for by name."""
    return RouteSide(Context.GATEWAY if at_gateway else Context.SIDECAR_OUTBOUND, target_ports)


def added(patches: Patches, apply_to: ApplyTo) -> Patches:
    """Return the patches that add a listener, a cluster or a configuration of an extension."""
    return tuple(each for each in patches if each.apply_to is apply_to and each.adds)


def mistake_of_added(patch: Patch) -> str | None:
    """Return why Envoy would refuse what a patch adds, or None."""
    value = patch.value
    found: Iterator[str]
    if isinstance(value, _Listener):
        found = listener_mistakes(value)
    elif isinstance(value, _Cluster):
        found = cluster_mistakes(value)
    else:
        found = (text for _, text in constraint_mistakes(value))
    return next(found, None)


def _may_match_listener(patch: Patch, name: str) -> bool:
    wanted = patch.match.listener
    return wanted is None or wanted.name in ("", name)
