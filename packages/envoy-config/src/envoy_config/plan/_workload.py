"""A proxy as the objects see it that are for workloads by labels."""

from envoy_config.plan._proxy import Proxy
from mesh_model import MeshModel, Workload


def workload_of(proxy: Proxy, model: MeshModel) -> Workload:
    """Return a proxy's workload: its labels are its endpoint's, over which the node's own go."""
    of_endpoint = next(
        (
            endpoint.labels
            for address in proxy.addresses
            for _, endpoint in model.by_address.get((proxy.namespace, address), ())
        ),
        (),
    )
    labels = {**dict(of_endpoint), **dict(proxy.labels)}
    return Workload(proxy.namespace, tuple(sorted(labels.items())), not proxy.is_sidecar)
