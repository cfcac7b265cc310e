"""A proxy as the objects see it that are for workloads by labels."""

from mesh_discovery.model._model import MeshModel
from mesh_discovery.model.policies._workload_rules import Workload
from mesh_discovery.plan._proxy import Proxy


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
