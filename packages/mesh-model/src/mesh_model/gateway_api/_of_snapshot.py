"""The translation of a snapshot's Gateway API objects, merged with the objects of Istio's kinds."""

from collections.abc import Mapping, Sequence
from heapq import merge

from istio_config import ConfigObject, Snapshot
from istio_config.kinds.gateway_api import GATEWAY_API_KINDS
from istio_config.kinds.kubernetes import NAMESPACE
from mesh_model._services import Service
from mesh_model.gateway_api._surroundings import MeshFacts
from mesh_model.gateway_api._translation import NO_GATEWAY_API, GatewayApi
from mesh_model.namespaces._host_owners import HostOwners
from mesh_model.secrets import Secrets


def gateway_api_of(
    snapshot: Snapshot,
    *,
    services: Mapping[tuple[str, str], Service],
    secrets: Secrets,
    domain: str,
    owners: HostOwners,
    before: GatewayApi | None = None,
) -> GatewayApi:
    """Translate the objects of a snapshot.

    services: by namespace and host. owners: the namespace that owns each host. before: the
    previous model's translation.
    """
    objects = tuple(each for kind in GATEWAY_API_KINDS for each in snapshot.of_kind(kind))
    if not objects:
        return NO_GATEWAY_API
    facts = MeshFacts(
        services=services,
        namespaces=snapshot.of_kind(NAMESPACE),
        secrets=secrets,
        domain=domain,
        owners=owners,
    )
    return GatewayApi.build(objects, facts, before)


def oldest_first(
    objects: Sequence[ConfigObject], translated: Sequence[ConfigObject]
) -> tuple[ConfigObject, ...]:
    """Merge objects with those of a translation, both oldest first."""
    if not translated:
        return tuple(objects)
    return tuple(merge(objects, translated, key=_age))


def _age(item: ConfigObject) -> tuple[str, str, str]:
    return item.created or "9999", item.name, item.namespace
