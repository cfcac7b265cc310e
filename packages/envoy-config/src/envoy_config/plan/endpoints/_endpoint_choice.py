"""Which endpoints of a service a client is sent: those of the subset that may take requests."""

import functools

from envoy_config.plan._auto_mtls import uses_mutual_tls
from envoy_config.plan._client import Client
from envoy_config.plan._discovery import Discovery, is_looked_up
from envoy_config.plan._traffic_policy import Policy
from istio_config.addresses import is_ip, socket_path
from istio_config.kinds.destination_rule import ClientTlsMode
from mesh_model import Endpoint, Health, MeshModel, Port, Rule, Service


def chosen_endpoints(
    service: Service,
    port: Port,
    *,
    subset: str,
    rule: Rule | None,
    policy: Policy,
    client: Client,
    found: Discovery,
) -> tuple[Endpoint, ...]:
    """Return the endpoints that a client may send requests of a port to, healthy or not."""
    own = rule.subsets.get(subset) if rule is not None and subset else None
    if subset and own is None:
        return ()
    labels = own.labels.items() if own is not None else {}.items()
    return tuple(
        each
        for each in service.endpoints_of(port)
        if _is_sent(each, service, policy)
        and (not labels or labels <= dict(each.labels).items())
        and (not service.is_node_local or each.node == client.location.node)
        and _has_fitting_address(each, found)
    )


def _is_sent(endpoint: Endpoint, service: Service, policy: Policy) -> bool:
    match endpoint.health:
        case Health.HEALTHY:
            return True
        case Health.UNHEALTHY:
            # Envoy would use them all the same, once too few are healthy.
            outlier = policy.outlier_detection
            panics = outlier is not None and outlier.min_health_percent > 0
            return bool(service.traffic_distribution) or not panics
        case Health.DRAINING:
            return service.keeps_sessions
        case Health.TERMINATING:
            return False


def _has_fitting_address(endpoint: Endpoint, found: Discovery) -> bool:
    """Return whether Envoy takes the address: it looks up names, and sends to IPs and sockets."""
    if not endpoint.address:
        return bool(endpoint.network)  # reached by the gateways there
    if is_looked_up(found):
        return socket_path(endpoint.address) is None
    return _is_ip(endpoint.address) or socket_path(endpoint.address) is not None


@functools.lru_cache(maxsize=4096)  # an endpoint is looked at for each port and subset
def _is_ip(text: str) -> bool:
    return is_ip(text)


def takes_mutual_tls(endpoint: Endpoint, port: Port, policy: Policy, model: MeshModel) -> bool:
    """Return whether clients speak the mesh's TLS to an endpoint, by its mode or by their rule."""
    if endpoint.is_network_gateway:
        return True
    if policy.tls is None:
        return uses_mutual_tls(endpoint, port, model)
    return policy.tls.mode is ClientTlsMode.ISTIO_MUTUAL and endpoint.speaks_mutual_tls
