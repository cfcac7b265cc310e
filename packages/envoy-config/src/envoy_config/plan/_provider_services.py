"""The services of extension providers, and the clusters by which proxies reach them."""

from typing import NamedTuple

from envoy_config.plan import _envoy_names as names
from istio_config.kinds.sidecar import ANY
from mesh_model import MeshModel


class ProviderService(NamedTuple):
    """A service as proxies call it by themselves."""

    cluster: str
    authority: str
    """The `Host` of calls."""
    key: tuple[str, str]
    """Its namespace and host."""


def provider_service(service: str, port: int, model: MeshModel) -> ProviderService | None:
    """Find a provider's service, given as `namespace/host` or as a host.

    None if there is no such service or port, or several namespaces have the host that is given
    alone: then those count that are exported to all.
    """
    namespace, slash, host = service.rpartition("/")
    host = host.lower()
    if not slash:
        found = tuple(model.indices.services.find(ANY, host))
        if len(found) > 1:
            found = tuple(key for key in found if ANY in model.by_key[key].export_to)
        if len(found) != 1:
            return None
        ((namespace, _),) = found
    known = model.by_key.get((namespace, host))
    known_port = known.port(port) if known is not None else None
    if known is None or known_port is None:
        return None
    return ProviderService(
        names.outbound_cluster(known, known_port), known.host, (namespace, known.host)
    )
