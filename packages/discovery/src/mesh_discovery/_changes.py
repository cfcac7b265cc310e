"""What a new world changes, as a push request: which services, and whether only endpoints."""

from xds_server import ConfigKey, PushRequest

from mesh_discovery._world import World

SERVICE = "ServiceEntry"
POLICY = "PeerAuthentication"


def difference(old: World | None, new: World) -> PushRequest | None:
    """Compare two worlds; None when no proxy could see a difference.

    The keys name services (kind ServiceEntry, by host and namespace) and namespaces of policies;
    no keys mean everything. `full` is False when nothing but endpoints changed.
    """
    if old is None or old.mesh != new.mesh or old.trust_domain != new.trust_domain:
        return PushRequest(full=True, reasons=("global",))
    keys: set[ConfigKey] = set()
    reasons: list[str] = []
    full = False
    for key in old.by_key.keys() | new.by_key.keys():
        before, after = old.by_key.get(key), new.by_key.get(key)
        if before == after:
            continue
        keys.add(ConfigKey(SERVICE, key[1], key[0]))
        if before is None or after is None:
            full = True
        elif before.without_endpoints() != after.without_endpoints():
            full = True
    if keys:
        reasons.append("service" if full else "endpoint")
    if old.policies != new.policies:
        full = True
        reasons.append("config")
        keys |= {
            ConfigKey(POLICY, "", policy.namespace)
            for policy in old.policies.policies + new.policies.policies
        }
    if not keys and list(old.by_key) != list(new.by_key):
        # Only which of two conflicting services is older.
        return PushRequest(full=True, reasons=("service",))
    if not keys:
        return None
    return PushRequest(full=full, configs_updated=frozenset(keys), reasons=tuple(reasons))
