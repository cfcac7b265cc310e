"""The workloads that the configuration knows, by namespace and service account.

A proxy proves its account; its labels are its own word. So where labels decide who gets a key, it
is these workloads that count: Pods, WorkloadEntries (registered ones too), endpoints of
ServiceEntries, and the templates of WorkloadGroups.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from istio_config import ConfigObject
from istio_config.kinds.kubernetes import PodSpec
from istio_config.kinds.workload_entry import WorkloadEntrySpec
from istio_config.kinds.workload_group import WorkloadGroupSpec, group_labels, registering_account
from mesh_model import (
    NAME_LABEL,
    Endpoint,
    Labels,
    MeshModel,
    changed_objects,
    changed_services,
    labels_of,
)


class AccountWorkload(NamedTuple):
    """Workloads of one service account with the same labels.

    hosts: of the services that it is an endpoint of, as far as it was found by them.
    """

    namespace: str
    account: str
    labels: Labels
    hosts: frozenset[str] = frozenset()


def account_workloads(
    model: MeshModel, namespace: str, accounts: frozenset[str] | None = None
) -> frozenset[AccountWorkload]:
    """Return the known workloads of some accounts of a namespace; None: of all its accounts."""
    return frozenset(
        each
        for each in _known(model, namespace)
        if each.account and (accounts is None or each.account in accounts)
    )


def known_labels(model: MeshModel, namespaces: Iterable[str]) -> Mapping[str, AbstractSet[Labels]]:
    """Return the labels of the known workloads of namespaces, whatever their accounts.

    It looks once at each endpoint of the mesh, however many namespaces these are.
    """
    found = {
        namespace: {each.labels for each in _known_by_objects(model, namespace) if each.labels}
        for namespace in namespaces
    }
    for service in model.services if found else ():
        for endpoint in service.endpoints:
            if endpoint.labels and endpoint.namespace in found:
                found[endpoint.namespace].add(endpoint.labels)
    return found


def _known(model: MeshModel, namespace: str) -> Iterator[AccountWorkload]:
    yield from _known_by_objects(model, namespace)
    for service in model.services:
        for endpoint in service.endpoints:
            if endpoint.namespace == namespace:
                yield _of_endpoint(endpoint)._replace(hosts=frozenset({service.host}))


def _known_by_objects(model: MeshModel, namespace: str) -> Iterator[AccountWorkload]:
    cluster = model.registry.inputs.cluster
    yield from _of_objects(cluster.entries.of_namespace(namespace))
    yield from _of_objects(cluster.pods_by_label.of_namespace(namespace))
    yield from _of_objects(each for each in model.workload_groups if each.namespace == namespace)
    yield from _deployed(model, namespace)


def same_objects(old: MeshModel, new: MeshModel) -> bool:
    """Return whether workloads are known by the same objects in both, but for endpoints."""
    before, after = old.registry.inputs.cluster, new.registry.inputs.cluster
    return (
        before.entries.by_namespace is after.entries.by_namespace
        and before.pods_by_label.by_namespace is after.pods_by_label.by_namespace
        and old.workload_groups is new.workload_groups
    )


def changed_namespaces(old: MeshModel, new: MeshModel) -> frozenset[str]:
    """Return the namespaces in which other workloads of accounts are known than before."""
    before, after = old.registry.inputs.cluster, new.registry.inputs.cluster
    found: set[str] = set()
    for one, other in (
        (before.entries.objects, after.entries.objects),
        (before.pods_by_label.objects, after.pods_by_label.objects),
        (old.workload_groups, new.workload_groups),
    ):
        if one is not other:
            gone, come = (set(_of_objects(each)) for each in changed_objects(one, other))
            found.update(each.namespace for each in gone ^ come)
    for pair in changed_services(old, new).pairs.values():
        was, now = (
            {_of_endpoint(each) for each in service.endpoints if each.service_account}
            if service is not None
            else set()
            for service in pair
        )
        found.update(each.namespace for each in was ^ now)
    return frozenset(found)


def _deployed(model: MeshModel, namespace: str) -> Iterator[AccountWorkload]:
    """Yield the routers that Istio deploys for the Gateway API's Gateways of a namespace."""
    for each in model.gateways.gateways:
        name = each.spec.selector.get(NAME_LABEL)
        if each.namespace == namespace and each.own_namespace_only and name:
            yield AccountWorkload(namespace, f"{name}-istio", ((NAME_LABEL, name),))


def _of_objects(items: Iterable[ConfigObject]) -> Iterator[AccountWorkload]:
    return (each for each in map(_of_object, items) if each is not None)


def _of_object(item: ConfigObject) -> AccountWorkload | None:
    match item.spec:
        case WorkloadEntrySpec(service_account=account):
            labels = labels_of(item)
        case PodSpec(service_account_name=named):
            account, labels = named or "default", labels_of(item)
        case WorkloadGroupSpec() as group:
            account, labels = registering_account(group), group_labels(group)
        case _:
            return None
    if not account:
        return None
    return AccountWorkload(item.namespace, account, tuple(sorted(labels.items())))


def _of_endpoint(endpoint: Endpoint) -> AccountWorkload:
    return AccountWorkload(endpoint.namespace, endpoint.service_account, endpoint.labels)
