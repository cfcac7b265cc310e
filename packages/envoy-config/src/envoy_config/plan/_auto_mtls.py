"""Automatic mutual TLS: whether clients speak mutual TLS to a service and to each of its endpoints.

It follows from mesh config's `enableAutoMtls` and from the PeerAuthentication of the endpoint
(`model/_peer_authentication`). The server's side of that policy is decided in `_inbound`; the
transport sockets are generated in `generate/clusters`, and chosen by metadata in
`generate/endpoints`. gRPC programs without an Envoy have one transport socket a cluster
(`generate/proxyless`).
"""

from istio_config.kinds.peer_authentication import MutualTlsMode
from mesh_model import Endpoint, MeshModel, Port, Service


def may_use_mutual_tls(service: Service, model: MeshModel) -> bool:
    """Return whether some endpoint of a service may take mutual TLS.

    Its clusters then have both transport sockets, and each endpoint's metadata chooses one.
    """
    if service.external or not model.mesh_config.enable_auto_mtls:
        return False
    if model.policies.namespace_mode(service.namespace) is not MutualTlsMode.DISABLE:
        return True
    return model.policies.has_workload_policy(service.namespace)


def uses_mutual_tls(endpoint: Endpoint, port: Port, model: MeshModel) -> bool:
    """Return whether clients should speak mutual TLS to an endpoint."""
    if not endpoint.speaks_mutual_tls or not model.mesh_config.enable_auto_mtls:
        return False
    mode = _mode(endpoint, port, model)
    if endpoint.is_proxyless:
        # On a PERMISSIVE port it takes plaintext only (`plan/_proxyless`).
        return mode is MutualTlsMode.STRICT
    return mode is not MutualTlsMode.DISABLE


def uses_mutual_tls_for_all(service: Service, port: Port, model: MeshModel) -> bool:
    """Return whether clients that pass connections on should speak mutual TLS to a service's port.

    Their clusters know no endpoints (ORIGINAL_DST), so that all are called alike. As in Istio they
    speak it if every endpoint takes it. Beyond that they do if one endpoint takes nothing else:
    it refuses plaintext, and by then whatever was said to it has been on the wire.
    """
    if service.external or not model.mesh_config.enable_auto_mtls:
        return False
    endpoints = service.endpoints_of(port)
    taking = [each for each in endpoints if uses_mutual_tls(each, port, model)]
    return bool(taking) and (
        len(taking) == len(endpoints)
        or any(_mode(each, port, model) is MutualTlsMode.STRICT for each in taking)
    )


def proxyless_uses_mutual_tls(service: Service, port: Port, model: MeshModel) -> bool:
    """Return whether gRPC programs without an Envoy should speak mutual TLS to a service's port.

    They do all of one cluster the same way, so they do if one endpoint takes nothing else. To
    PERMISSIVE endpoints plaintext is the one thing that Envoys and gRPC servers both accept.
    """
    if service.external or not model.mesh_config.enable_auto_mtls:
        return False
    return any(
        endpoint.speaks_mutual_tls and _mode(endpoint, port, model) is MutualTlsMode.STRICT
        for endpoint in service.endpoints
    )


def _mode(endpoint: Endpoint, port: Port, model: MeshModel) -> MutualTlsMode:
    return model.policies.mode(endpoint.namespace, dict(endpoint.labels), endpoint.port_for(port))
