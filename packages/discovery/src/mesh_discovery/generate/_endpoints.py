"""Load assignments: the endpoints of a service port, grouped by locality."""

from itertools import groupby

from mesh_discovery._addresses import socket_path
from mesh_discovery.generate._messages import (
    address,
    address_pb2,
    base_pb2,
    endpoint_components_pb2,
    endpoint_pb2,
    struct,
    wrappers_pb2,
)
from mesh_discovery.model._model import MeshModel
from mesh_discovery.model._services import Endpoint, Port, Service
from mesh_discovery.plan import _envoy_names as names
from mesh_discovery.plan._auto_mtls import uses_mutual_tls


def load_assignment(
    service: Service, port: Port, model: MeshModel
) -> endpoint_pb2.ClusterLoadAssignment:
    """Make the endpoints of one service port."""
    return endpoint_pb2.ClusterLoadAssignment(
        cluster_name=names.outbound_cluster(service, port),
        endpoints=[
            _locality(locality, list(endpoints), port, model)
            for locality, endpoints in groupby(
                sorted(service.endpoints, key=lambda e: e.locality), key=lambda e: e.locality
            )
        ],
    )


def empty_assignment(name: str) -> endpoint_pb2.ClusterLoadAssignment:
    """Make the answer for an unknown cluster, so that Envoy stops waiting for it."""
    return endpoint_pb2.ClusterLoadAssignment(cluster_name=name)


def _locality(
    locality: str, endpoints: list[Endpoint], port: Port, model: MeshModel
) -> endpoint_components_pb2.LocalityLbEndpoints:
    region, zone, sub_zone = (*locality.split("/", 2), "", "", "")[:3]
    return endpoint_components_pb2.LocalityLbEndpoints(
        locality=base_pb2.Locality(region=region, zone=zone, sub_zone=sub_zone),
        lb_endpoints=[_endpoint(each, port, model) for each in endpoints],
        load_balancing_weight=wrappers_pb2.UInt32Value(
            value=min(sum(each.weight or 1 for each in endpoints), 2**32 - 1)
        ),
    )


def _endpoint(
    endpoint: Endpoint, port: Port, model: MeshModel
) -> endpoint_components_pb2.LbEndpoint:
    mutual_tls = uses_mutual_tls(endpoint, port, model)
    metadata = {"envoy.transport_socket_match": struct([("tlsMode", "istio")])}
    if not mutual_tls:
        metadata = {"envoy.transport_socket_match": struct([("tlsMode", "disabled")])}
    workload = f"{endpoint.workload};{endpoint.namespace};;;"
    metadata["istio"] = struct([("workload", workload)])
    path = socket_path(endpoint.address)
    where = (
        address(endpoint.address, endpoint.port_for(port))
        if path is None
        else _socket_address(path)
    )
    return endpoint_components_pb2.LbEndpoint(
        endpoint=endpoint_components_pb2.Endpoint(address=where),
        metadata=base_pb2.Metadata(filter_metadata=metadata),
        load_balancing_weight=wrappers_pb2.UInt32Value(value=endpoint.weight or 1),
    )


def _socket_address(path: str) -> address_pb2.Address:
    """Make the address of a Unix socket."""
    return address_pb2.Address(pipe=address_pb2.Pipe(path=path))
