"""Load assignments: the endpoints of a service's port, or of a subset, as a client sees them."""

from collections.abc import Iterable
from functools import lru_cache

from envoy_config.generate._messages import (
    address,
    address_pb2,
    base_pb2,
    endpoint_components_pb2,
    endpoint_pb2,
    health_check_pb2,
    struct,
    wrappers_pb2,
)
from envoy_config.plan import _envoy_names as names
from envoy_config.plan._client import Client
from envoy_config.plan._discovery import discovery, is_looked_up
from envoy_config.plan._locality import (
    MOST_WEIGHT,
    Group,
    arrange,
    endpoint_weight,
    locality_parts,
    preference,
)
from envoy_config.plan._traffic_policy import Policy, effective_policy
from envoy_config.plan._workload_metadata import (
    METRICS_KEY,
    EndpointWorkload,
    workload_fields,
    workload_of_endpoint,
    workload_text,
)
from envoy_config.plan.endpoints._endpoint_choice import chosen_endpoints, takes_mutual_tls
from envoy_config.plan.endpoints._network_gateways import through_gateways
from istio_config.addresses import socket_path
from mesh_identity import SpiffeId
from mesh_model import Endpoint, Health, MeshModel, Port, Rule, Service

_Health = health_check_pb2.HealthStatus
_STATUS = {Health.UNHEALTHY: _Health.UNHEALTHY, Health.DRAINING: _Health.DRAINING}
_MOST_WORKLOADS = 1000


def load_assignment(
    service: Service,
    port: Port,
    model: MeshModel,
    *,
    subset: str = "",
    rule: Rule | None = None,
    client: Client | None = None,
) -> endpoint_pb2.ClusterLoadAssignment:
    """Make the endpoints of a service's port; rule: by which the client reaches the service."""
    client = client or Client()
    policy = effective_policy(rule, port.number, subset, model)
    how = discovery(service, policy, client, is_http=port.protocol.is_http)
    found = chosen_endpoints(
        service,
        port,
        subset=subset,
        rule=rule,
        policy=policy,
        client=client,
        found=how,
    )
    ways = through_gateways(
        found,
        service,
        port,
        model.networks,
        network=client.location.network,
        by_name=is_looked_up(how),
        takes_mutual_tls=lambda each: takes_mutual_tls(each, port, policy, model),
    )
    return _assignment(
        names.outbound_cluster(service, port, subset),
        arrange(ways, preference(service, policy, model), client),
        port,
        policy,
        model,
        namespace=service.namespace,
    )


def sni_assignment(
    service: Service,
    port: Port,
    model: MeshModel,
    *,
    subset: str = "",
    rule: Rule | None = None,
    client: Client,
) -> endpoint_pb2.ClusterLoadAssignment:
    """Make the endpoints that a gateway passes the mesh's TLS on to: those that take it."""
    policy = effective_policy(rule, port.number, subset, model)
    found = chosen_endpoints(
        service,
        port,
        subset=subset,
        rule=rule,
        policy=policy,
        client=client,
        found=discovery(service, policy, client, is_http=False),
    )
    usable = (
        each for each in found if each.address and takes_mutual_tls(each, port, policy, model)
    )
    return _assignment(
        names.sni_cluster(service, port, subset),
        arrange(usable, preference(service, policy, model), client),
        port,
        policy,
        model,
        namespace=service.namespace,
    )


def empty_assignment(name: str) -> endpoint_pb2.ClusterLoadAssignment:
    """Make the answer for an unknown cluster, so that Envoy stops waiting for it."""
    return endpoint_pb2.ClusterLoadAssignment(cluster_name=name)


def _assignment(
    name: str,
    groups: Iterable[Group],
    port: Port,
    policy: Policy,
    model: MeshModel,
    *,
    namespace: str,
) -> endpoint_pb2.ClusterLoadAssignment:
    return endpoint_pb2.ClusterLoadAssignment(
        cluster_name=name,
        endpoints=[_locality(each, port, policy, model, namespace=namespace) for each in groups],
    )


def _locality(
    group: Group, port: Port, policy: Policy, model: MeshModel, *, namespace: str
) -> endpoint_components_pb2.LocalityLbEndpoints:
    region, zone, sub_zone = locality_parts(group.locality)
    # Envoy refuses a locality whose endpoints weigh more together than fits in 32 bits.
    total = sum(map(endpoint_weight, group.endpoints))
    divisor = 1 if total <= MOST_WEIGHT else -(-total // (MOST_WEIGHT - len(group.endpoints)))
    return endpoint_components_pb2.LocalityLbEndpoints(
        locality=base_pb2.Locality(region=region, zone=zone, sub_zone=sub_zone),
        lb_endpoints=[
            _endpoint(
                each,
                max(1, endpoint_weight(each) // divisor),
                port,
                policy,
                model,
                namespace=namespace,
            )
            for each in group.endpoints
        ],
        load_balancing_weight=wrappers_pb2.UInt32Value(value=group.weight),
        priority=group.priority,
    )


def _endpoint(
    endpoint: Endpoint,
    weight: int,
    port: Port,
    policy: Policy,
    model: MeshModel,
    *,
    namespace: str,
) -> endpoint_components_pb2.LbEndpoint:
    workload = workload_of_endpoint(endpoint)
    metadata = (
        _metadata_of_mesh(workload, namespace, endpoint.service_account, model.trust_domain)
        if takes_mutual_tls(endpoint, port, policy, model)
        else _metadata(workload, namespace)
    )
    path = socket_path(endpoint.address)
    where = (
        address(endpoint.address, endpoint.port_for(port))
        if path is None
        else address_pb2.Address(pipe=address_pb2.Pipe(path=path))
    )
    return endpoint_components_pb2.LbEndpoint(
        endpoint=endpoint_components_pb2.Endpoint(address=where),
        health_status=_STATUS.get(endpoint.health, _Health.UNKNOWN),
        metadata=metadata,
        load_balancing_weight=wrappers_pb2.UInt32Value(value=weight),
    )


# The endpoints of a service are alike in this, and it is half of the work of making one.
@lru_cache(maxsize=_MOST_WORKLOADS)
def _metadata(workload: EndpointWorkload, namespace: str, principal: str = "") -> base_pb2.Metadata:
    found = {"istio": struct([("workload", workload_text(workload))])}
    if fields := tuple(workload_fields(workload, namespace, principal)):
        found[METRICS_KEY] = struct(fields)
    return base_pb2.Metadata(filter_metadata=found)


@lru_cache(maxsize=_MOST_WORKLOADS)
def _metadata_of_mesh(
    workload: EndpointWorkload, namespace: str, account: str, trust_domain: str
) -> base_pb2.Metadata:
    """Return the metadata of an endpoint that takes mutual TLS."""
    principal = ""
    if account:
        identity = SpiffeId.for_service_account(
            trust_domain=trust_domain, namespace=workload.namespace, service_account=account
        )
        principal = str(identity)
    found = base_pb2.Metadata()
    found.CopyFrom(_metadata(workload, namespace, principal))
    mode = found.filter_metadata["envoy.transport_socket_match"]
    mode.CopyFrom(struct([("tlsMode", "istio")]))
    return found
