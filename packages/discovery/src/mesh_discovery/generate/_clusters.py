"""Clusters: the services that a proxy connects to, and the application beside it."""

from mesh_discovery.config.kinds._protocol import Protocol
from mesh_discovery.config.kinds._service_entry import Resolution
from mesh_discovery.generate import _tls as tls
from mesh_discovery.generate._endpoints import load_assignment
from mesh_discovery.generate._messages import (
    address,
    base_pb2,
    circuit_breaker_pb2,
    cluster_pb2,
    duration,
    endpoint_components_pb2,
    endpoint_pb2,
    from_ads,
    http_protocol_options_pb2,
    packed,
    percent_pb2,
    protocol_pb2,
    struct,
    wrappers_pb2,
)
from mesh_discovery.generate._passthrough import forward_by_host
from mesh_discovery.model._model import MeshModel
from mesh_discovery.model._services import Port, Service
from mesh_discovery.plan import _envoy_names as names
from mesh_discovery.plan._auto_mtls import may_use_mutual_tls
from mesh_discovery.plan._inbound import Application
from mesh_identity import SpiffeId

_Type = cluster_pb2.Cluster.DiscoveryType
_Lb = cluster_pb2.Cluster.LbPolicy
_TYPES = {
    Resolution.STATIC: _Type.EDS,
    Resolution.DNS: _Type.STRICT_DNS,
    Resolution.DNS_ROUND_ROBIN: _Type.LOGICAL_DNS,
    Resolution.NONE: _Type.ORIGINAL_DST,
}
_UNLIMITED = wrappers_pb2.UInt32Value(value=2**32 - 1)
_MAX_HTTP2_STREAMS = 1073741824


def outbound_clusters(service: Service, model: MeshModel) -> list[cluster_pb2.Cluster]:
    """Make one cluster a port; none for ports that Envoy does not carry."""
    return [
        _outbound(service, port, model)
        for port in service.ports
        if port.protocol is not Protocol.UDP
        and (service.endpoints or service.resolution in (Resolution.STATIC, Resolution.NONE))
    ]


def _outbound(service: Service, port: Port, model: MeshModel) -> cluster_pb2.Cluster:
    name = names.outbound_cluster(service, port)
    cluster = new_cluster(name, _TYPES[service.resolution], model)
    match service.resolution:
        case Resolution.STATIC:
            cluster.eds_cluster_config.CopyFrom(
                cluster_pb2.Cluster.EdsClusterConfig(eds_config=from_ads(), service_name=name)
            )
        case Resolution.DNS | Resolution.DNS_ROUND_ROBIN:
            cluster.load_assignment.CopyFrom(load_assignment(service, port, model))
            cluster.dns_refresh_rate.CopyFrom(duration(model.mesh_config.dns_refresh_rate))
            cluster.respect_dns_ttl = True
            cluster.dns_lookup_family = cluster_pb2.Cluster.DnsLookupFamily.V4_PREFERRED
        case Resolution.NONE:
            cluster.lb_policy = _Lb.CLUSTER_PROVIDED
        case Resolution.DYNAMIC_DNS:
            pass  # not accepted yet
    http2 = port.protocol.is_http2
    if http2:
        speak_http2(cluster)
    elif port.protocol is Protocol.AUTO:
        speak_as_clients(cluster)
    if may_use_mutual_tls(service, model):
        cluster.transport_socket_matches.extend(_auto_mutual_tls(service, port, model, http2=http2))
    cluster.metadata.CopyFrom(
        base_pb2.Metadata(
            filter_metadata={
                "istio": struct(
                    [
                        ("default_original_port", str(port.number)),
                        ("service", f"{service.namespace}/{service.host}"),
                    ]
                )
            }
        )
    )
    return cluster


def inbound_cluster(application: Application, model: MeshModel) -> cluster_pb2.Cluster:
    """Make the cluster of the application beside the proxy, in plaintext."""
    name = names.inbound_cluster(application.port)
    cluster = new_cluster(name, _Type.STATIC, model)
    cluster.load_assignment.CopyFrom(
        endpoint_pb2.ClusterLoadAssignment(
            cluster_name=name,
            endpoints=[
                endpoint_components_pb2.LocalityLbEndpoints(
                    lb_endpoints=[
                        endpoint_components_pb2.LbEndpoint(
                            endpoint=endpoint_components_pb2.Endpoint(
                                address=address(application.address, application.port)
                            )
                        )
                    ]
                )
            ],
        )
    )
    if application.protocol.is_http2:
        speak_http2(cluster)
    return cluster


def black_hole(model: MeshModel) -> cluster_pb2.Cluster:
    """Make the cluster without endpoints, for requests that must fail."""
    return new_cluster(names.BLACK_HOLE, _Type.STATIC, model)


def passthrough(model: MeshModel) -> cluster_pb2.Cluster:
    """Make the cluster of hosts that the mesh does not know."""
    cluster = new_cluster(names.PASSTHROUGH, None, model)
    forward_by_host(cluster)
    return cluster


def new_cluster(
    name: str, kind: "cluster_pb2.Cluster.DiscoveryType.ValueType | None", model: MeshModel
) -> cluster_pb2.Cluster:
    """Make a cluster with what all have; kind: None for one of a type of its own."""
    cluster = cluster_pb2.Cluster(
        name=name,
        # In Envoy's statistics a name ends where the `;` stands, for names have dots in them: the
        # pattern that proxies' bootstraps find the tag `cluster_name` by looks for it.
        alt_stat_name=f"{name};",
        connect_timeout=duration(model.mesh_config.connect_timeout),
        circuit_breakers=circuit_breaker_pb2.CircuitBreakers(
            thresholds=[
                circuit_breaker_pb2.CircuitBreakers.Thresholds(
                    max_connections=_UNLIMITED,
                    max_pending_requests=_UNLIMITED,
                    max_requests=_UNLIMITED,
                    max_retries=_UNLIMITED,
                    track_remaining=True,
                )
            ]
        ),
        common_lb_config=cluster_pb2.Cluster.CommonLbConfig(
            healthy_panic_threshold=percent_pb2.Percent()
        ),
    )
    if kind is not None:
        cluster.type = kind
    return cluster


def speak_http2(cluster: cluster_pb2.Cluster) -> None:
    """Have a cluster speak HTTP/2, whatever clients speak."""
    options = http_protocol_options_pb2.HttpProtocolOptions
    cluster.typed_extension_protocol_options[
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    ].CopyFrom(
        packed(
            options(
                explicit_http_config=options.ExplicitHttpConfig(
                    http2_protocol_options=protocol_pb2.Http2ProtocolOptions(
                        max_concurrent_streams=wrappers_pb2.UInt32Value(value=_MAX_HTTP2_STREAMS)
                    )
                )
            )
        )
    )


def speak_as_clients(cluster: cluster_pb2.Cluster) -> None:
    """Have a cluster speak the version of HTTP in which each request came."""
    options = http_protocol_options_pb2.HttpProtocolOptions
    cluster.typed_extension_protocol_options[
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    ].CopyFrom(
        packed(
            options(
                use_downstream_protocol_config=options.UseDownstreamHttpConfig(
                    http_protocol_options=protocol_pb2.Http1ProtocolOptions(),
                    http2_protocol_options=protocol_pb2.Http2ProtocolOptions(
                        max_concurrent_streams=wrappers_pb2.UInt32Value(value=_MAX_HTTP2_STREAMS)
                    ),
                )
            )
        )
    )


def _auto_mutual_tls(
    service: Service, port: Port, model: MeshModel, *, http2: bool
) -> list[cluster_pb2.Cluster.TransportSocketMatch]:
    match = cluster_pb2.Cluster.TransportSocketMatch
    return [
        match(
            name="tlsMode-istio",
            match=struct([("tlsMode", "istio")]),
            transport_socket=tls.client_socket(
                peers=expected_peers(service, model), sni=names.sni(service, port), http2=http2
            ),
        ),
        match(name="tlsMode-disabled", match=struct([]), transport_socket=tls.plain_socket()),
    ]


def expected_peers(service: Service, model: MeshModel) -> tuple[str, ...]:
    """Return the identities that may serve a service: those it names, else its endpoints'."""
    if service.subject_alt_names:
        return service.subject_alt_names
    return tuple(
        str(
            SpiffeId.for_service_account(
                trust_domain=domain, namespace=namespace, service_account=account
            )
        )
        for domain in model.trust_domains
        for namespace, account in service.service_accounts
    )
