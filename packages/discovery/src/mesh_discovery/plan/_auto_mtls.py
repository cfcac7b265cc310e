"""Automatic mutual TLS: whether clients speak mutual TLS to a service and to each of its endpoints.

It follows from mesh config's `enableAutoMtls` and from the PeerAuthentication of the endpoint
(`model/_peer_authentication`). The server's side of that policy is decided in `_inbound`; the
transport sockets are made in `generate/_clusters`, and chosen by metadata in `generate/_endpoints`.
"""

from mesh_discovery.config.kinds._peer_authentication import MutualTlsMode
from mesh_discovery.config.kinds._service_entry import Resolution
from mesh_discovery.model._model import MeshModel
from mesh_discovery.model._services import Endpoint, Port, Service


def may_use_mutual_tls(service: Service, model: MeshModel) -> bool:
    """Tell whether some endpoint of a service may take mutual TLS.

    Its clusters then have both transport sockets, and each endpoint's metadata chooses one.
    """
    if service.external or not model.mesh_config.enable_auto_mtls:
        return False
    if service.resolution is Resolution.NONE:
        return False
    if model.policies.namespace_mode(service.namespace) is not MutualTlsMode.DISABLE:
        return True
    return model.policies.has_workload_policy(service.namespace)


def uses_mutual_tls(endpoint: Endpoint, port: Port, model: MeshModel) -> bool:
    """Tell whether clients should speak mutual TLS to an endpoint."""
    if not endpoint.speaks_mutual_tls or not model.mesh_config.enable_auto_mtls:
        return False
    mode = model.policies.mode(endpoint.namespace, dict(endpoint.labels), endpoint.port_for(port))
    return mode is not MutualTlsMode.DISABLE
