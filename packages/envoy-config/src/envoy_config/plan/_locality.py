"""Which endpoints a client prefers by where they are: shares of localities, or who takes over.

A setting has shares (`distribute`), or an order in which localities or endpoints with certain
labels take over from those that fail (`failover`, `failoverPriority`). The order becomes Envoy's
priorities: 0, 1, 2 and so on without gaps. It needs outlier detection, by which clients learn what
fails; the traffic distribution of a Kubernetes Service needs none.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from envoy_config.plan._client import Client, Location
from envoy_config.plan._traffic_policy import Policy
from istio_config.kinds.destination_rule import Distribute, Failover, LocalityLbSetting
from mesh_model import Endpoint, MeshModel, Service

REGION = "topology.kubernetes.io/region"
ZONE = "topology.kubernetes.io/zone"
SUBZONE = "topology.istio.io/subzone"
NETWORK = "topology.istio.io/network"
CLUSTER = "topology.istio.io/cluster"
HOSTNAME = "kubernetes.io/hostname"

_BY_DISTRIBUTION = {
    "PreferClose": (NETWORK, REGION, ZONE),
    "PreferSameZone": (NETWORK, REGION, ZONE),
    "PreferSameNode": (NETWORK, REGION, ZONE, SUBZONE, HOSTNAME),
}
MOST_WEIGHT = 2**32 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """The setting that holds for a port of a service."""

    distribute: tuple[Distribute, ...] = ()
    failover: tuple[Failover, ...] = ()
    failover_priority: tuple[str, ...] = ()
    by_locality: bool = False
    """Whether localities take over from each other by their distance."""
    by_region: bool = False
    """Whether only regions do, and Envoy chooses among the zones of one."""
    is_weighted: bool = False
    """Whether Envoy is to choose a locality by its weight first."""


NO_PREFERENCE = Preference()


class Group(NamedTuple):
    """The endpoints of a locality that have one priority."""

    locality: str
    priority: int
    weight: int
    endpoints: tuple[Endpoint, ...]


def preference(service: Service, policy: Policy, model: MeshModel) -> Preference:
    """Return the setting of a service's port: of its rule, of the service, else of the mesh."""
    detects = policy.outlier_detection is not None
    balancer = policy.load_balancer
    if balancer is not None and (zones := balancer.zone_aware_lb_setting) is not None:
        if zones.enabled is False:
            return NO_PREFERENCE
        return Preference(
            failover=zones.failover, failover_priority=zones.failover_priority, by_region=True
        )
    if balancer is not None and balancer.locality_lb_setting is not None:
        return _of(balancer.locality_lb_setting, detects=detects)
    labels = _BY_DISTRIBUTION.get(service.traffic_distribution)
    if labels is not None:
        return Preference(failover_priority=labels)
    return _of(model.mesh_config.locality_lb_setting, detects=detects)


def _of(setting: LocalityLbSetting, *, detects: bool) -> Preference:
    if setting.enabled is False:
        return NO_PREFERENCE
    is_weighted = bool(setting.distribute or setting.failover or setting.failover_priority)
    if setting.distribute:
        return Preference(distribute=setting.distribute, is_weighted=True)
    if not detects:
        return Preference(is_weighted=is_weighted)
    return Preference(
        failover=setting.failover,
        failover_priority=setting.failover_priority,
        by_locality=bool(setting.failover) or not setting.failover_priority,
        is_weighted=is_weighted,
    )


def depends_on_location(wanted: Preference) -> bool:
    """Return whether endpoints, or their order, depend on where a client is."""
    return bool(
        wanted.distribute or wanted.failover_priority or wanted.by_locality or wanted.by_region
    )


def arrange(endpoints: Iterable[Endpoint], wanted: Preference, client: Client) -> tuple[Group, ...]:
    """Group endpoints by locality and priority, in the order of localities, as a client has them.

    Each locality's weight is the sum of its endpoints' weights, or its share.
    """
    groups = _by_priority(endpoints, wanted, client)
    shares = _shares(wanted.distribute, client.location)
    if shares is None:
        return groups
    return _distributed(groups, shares)


def locality_parts(locality: str) -> tuple[str, str, str]:
    """Take `region/zone/subzone` apart; missing parts are empty."""
    region, zone, subzone = (*locality.split("/", 2), "", "")[:3]
    return region, zone, subzone


def endpoint_weight(endpoint: Endpoint) -> int:
    """Return the weight of an endpoint; 0 means 1."""
    return endpoint.weight or 1


def _by_priority(
    endpoints: Iterable[Endpoint], wanted: Preference, client: Client
) -> tuple[Group, ...]:
    found: dict[tuple[str, int], list[Endpoint]] = {}
    if wanted.by_locality or wanted.by_region or wanted.failover_priority:
        own = _labels_of_client(client)
        for each in endpoints:
            rank = _priority(each, wanted, client, own)
            found.setdefault((each.locality, rank), []).append(each)
    else:
        for each in endpoints:
            found.setdefault((each.locality, 0), []).append(each)
    ranks = {rank: index for index, rank in enumerate(sorted({rank for _, rank in found}))}
    return tuple(
        Group(
            locality,
            ranks[rank],
            min(sum(map(endpoint_weight, found[locality, rank])), MOST_WEIGHT),
            tuple(found[locality, rank]),
        )
        for locality, rank in sorted(found)
    )


def _priority(
    endpoint: Endpoint, wanted: Preference, client: Client, own: Mapping[str, str]
) -> int:
    by_labels = 0
    if wanted.failover_priority:
        by_labels = label_priority(wanted.failover_priority, own, _labels_of_endpoint(endpoint))
    if wanted.by_locality:
        distance = locality_priority(client.location.locality, endpoint.locality, wanted.failover)
        return 5 * by_labels + distance
    if wanted.by_region:
        region = region_priority(client.location.locality, endpoint.locality, wanted.failover)
        return 5 * by_labels + region
    return by_labels


def locality_priority(own: str, other: str, failover: Sequence[Failover] = ()) -> int:
    """Return how far a locality is: 0 the same, 1 the zone, 2 the region, 3 elsewhere.

    4 for other regions than the one that takes over, if one is named.
    """
    mine, theirs = locality_parts(own), locality_parts(other)
    if mine[0] != theirs[0]:
        named = next((each.to for each in failover if each.from_ == mine[0]), None)
        return 3 if named in (None, theirs[0]) else 4
    if mine[1] != theirs[1]:
        return 2
    return 0 if mine[2] == theirs[2] else 1


def region_priority(own: str, other: str, failover: Sequence[Failover] = ()) -> int:
    """Return how far a region is: 0 the same, 1 the one that takes over, 2 any other."""
    mine, theirs = locality_parts(own)[0], locality_parts(other)[0]
    if mine == theirs:
        return 0
    return 1 if any(each.from_ == mine and each.to == theirs for each in failover) else 2


def label_priority(
    labels: Sequence[str], own: Mapping[str, str], endpoint: Mapping[str, str]
) -> int:
    """Return at which label an endpoint first differs from a client: 0 if it does not.

    labels: keys, or `key=value` to compare with a value instead of the client's. One on another
    network comes after all of the client's own network.
    """
    most = len(labels)
    added = 0
    for index, label in enumerate(labels):
        key, given, value = label.partition("=")
        expected = value if given else own.get(key, "")
        if expected == endpoint.get(key, ""):
            continue
        if index == 0 and key == NETWORK:
            added = most
            continue
        return added + most - index
    return added


def _labels_of_client(client: Client) -> Mapping[str, str]:
    where = client.location
    return dict(client.labels) | _topology(where.locality, where.network, where.cluster, where.node)


def _labels_of_endpoint(endpoint: Endpoint) -> Mapping[str, str]:
    return dict(endpoint.labels) | _topology(endpoint.locality, endpoint.network, "", endpoint.node)


def _topology(locality: str, network: str, cluster: str, node: str) -> dict[str, str]:
    region, zone, subzone = locality_parts(locality)
    known = {
        REGION: region,
        ZONE: zone,
        SUBZONE: subzone,
        NETWORK: network,
        CLUSTER: cluster,
        HOSTNAME: node,
    }
    return {key: value for key, value in known.items() if value}


def _shares(distribute: Iterable[Distribute], location: Location) -> Mapping[str, int] | None:
    for each in distribute:
        if locality_matches(each.from_, location.locality):
            return each.to
    return None


def locality_matches(pattern: str, locality: str) -> bool:
    """Return whether a locality is one of `region/zone/subzone`; missing parts and `*` mean any."""
    for wanted, part in zip(locality_parts(pattern), locality_parts(locality), strict=True):
        if wanted in ("", "*"):
            return True
        if wanted != part:
            return False
    return True


def _distributed(groups: Sequence[Group], shares: Mapping[str, int]) -> tuple[Group, ...]:
    """Give each locality its part of a share; localities without a share are left out."""
    left = dict(enumerate(groups))
    found: dict[int, Group] = {}
    for pattern, share in shares.items():
        taken = {
            index: group
            for index, group in left.items()
            if locality_matches(pattern, group.locality)
        }
        total = sum(group.weight for group in taken.values())
        for index, group in taken.items():
            del left[index]
            found[index] = group._replace(weight=-(-group.weight * share // total))
    return tuple(found[index] for index in sorted(found))
