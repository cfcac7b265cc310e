"""What a new model changes, as a push request: which services, and whether only endpoints."""

from mesh_discovery.model._model import MeshModel
from mesh_discovery.model._services import Service
from xds_server import ConfigKey, PushRequest

SERVICE = "ServiceEntry"
POLICY = "PeerAuthentication"
WORKLOAD = "WorkloadEntry"


def difference(old: MeshModel | None, new: MeshModel) -> PushRequest | None:
    """Compare two models; None when no proxy could see a difference.

    The keys name services (kind ServiceEntry, by host and namespace), workloads for whom another
    set of ports is served now (kind WorkloadEntry, by address and namespace), and namespaces of
    policies; no keys mean everything. `incremental` when nothing but endpoints changed.
    """
    if old is None or old.mesh_config != new.mesh_config or old.trust_domain != new.trust_domain:
        return PushRequest(triggers=("global",))
    keys: set[ConfigKey] = set()
    triggers: list[str] = []
    incremental = True
    for key in old.by_key.keys() | new.by_key.keys():
        before, after = old.by_key.get(key), new.by_key.get(key)
        if before == after:
            continue
        keys.add(ConfigKey(SERVICE, key[1], key[0]))
        keys |= _workloads(before, after)
        if (
            before is None
            or after is None
            or before.without_endpoints() != after.without_endpoints()
        ):
            incremental = False
    if keys:
        triggers.append("endpoint" if incremental else "service")
    if old.policies != new.policies:
        incremental = False
        triggers.append("config")
        keys |= {
            ConfigKey(POLICY, "", policy.namespace)
            for policy in old.policies.policies + new.policies.policies
        }
    if not keys and list(old.by_key) != list(new.by_key):
        # Only which of two conflicting services is older.
        return PushRequest(triggers=("service",))
    if not keys:
        return None
    return PushRequest(
        incremental=incremental, configs_updated=frozenset(keys), triggers=tuple(triggers)
    )


def _workloads(before: Service | None, after: Service | None) -> set[ConfigKey]:
    old = frozenset(before.endpoints) if before is not None else frozenset()
    new = frozenset(after.endpoints) if after is not None else frozenset()
    if before is not None and after is not None and before.ports != after.ports:
        changed = old | new
    else:
        changed = old ^ new
    return {ConfigKey(WORKLOAD, each.address, each.namespace) for each in changed}
