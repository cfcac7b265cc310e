"""Clusters of services: one a port, and one more for each subset that a rule has."""

from collections.abc import Iterator
from typing import NamedTuple

from envoy.config.core.v3 import extension_pb2
from envoy.extensions.network.dns_resolver.cares.v3 import cares_dns_resolver_pb2

from envoy_config.generate._header_case import keeps_case
from envoy_config.generate._istio_metadata import (
    Value,
    add_metric_fields,
    config_path,
    istio_metadata,
    service_fields,
    service_metadata,
)
from envoy_config.generate._messages import (
    cluster_pb2,
    duration,
    from_ads,
    health_check_pb2,
    packed,
)
from envoy_config.generate._passthrough import forward_by_host
from envoy_config.generate.clusters._balancing import balance
from envoy_config.generate.clusters._cluster import new_cluster, number
from envoy_config.generate.clusters._http_options import Speaks, set_http_options, speaks
from envoy_config.generate.clusters._outlier_detection import detect_outliers
from envoy_config.generate.clusters._pools import limit
from envoy_config.generate.clusters._stat_names import stat_name
from envoy_config.generate.clusters._transport import certificate_names, secure
from envoy_config.generate.endpoints._assignment import load_assignment, sni_assignment
from envoy_config.plan import _envoy_names as names
from envoy_config.plan._client import Client
from envoy_config.plan._discovery import Discovery, discovery, is_looked_up
from envoy_config.plan._locality import preference
from envoy_config.plan._traffic_policy import Policy, effective_policy
from envoy_config.plan._upstream_tls import TlsKind, UpstreamTls, upstream_tls
from istio_config.kinds.destination_rule import ClientTlsMode
from istio_config.kinds.mesh_config import MeshH2UpgradePolicy
from istio_config.kinds.protocol import Protocol
from istio_config.kinds.service_entry import Resolution
from mesh_model import MeshModel, Port, Rule, Service

_Cluster = cluster_pb2.Cluster
_DNS_JITTER_S = 0.1
_UDP_QUERIES = 100
_GATEWAY = Client(is_sidecar=False)
_Health = health_check_pb2.HealthStatus


class _Target(NamedTuple):
    service: Service
    port: Port
    subset: str
    rule: Rule | None
    policy: Policy


def outbound_clusters(
    service: Service, rule: Rule | None, model: MeshModel, client: Client
) -> list[cluster_pb2.Cluster]:
    """Make the clusters of a service; none for ports that Envoy does not carry.

    rule: the one by which the client reaches the service.
    """
    return [
        cluster
        for target in _targets(service, rule, model)
        for cluster in _outbound(target, model, client)
    ]


def sni_clusters(
    service: Service, rule: Rule | None, model: MeshModel
) -> list[cluster_pb2.Cluster]:
    """Make the clusters of a gateway that passes TLS on to a service, by the SNI that it has."""
    return [
        cluster for target in _targets(service, rule, model) for cluster in _by_sni(target, model)
    ]


def _by_sni(target: _Target, model: MeshModel) -> Iterator[cluster_pb2.Cluster]:
    service, port, subset, rule, policy = target
    found = discovery(service, policy, _GATEWAY, is_http=False)
    cluster = new_cluster(names.sni_cluster(service, port, subset), found, model)
    add_metric_fields(cluster.metadata, service_fields(service))
    if is_looked_up(found):
        endpoints = sni_assignment(service, port, model, subset=subset, rule=rule, client=_GATEWAY)
        cluster.load_assignment.CopyFrom(endpoints)
        if endpoints.endpoints:
            _look_up(cluster, model)
        else:  # none of them takes mutual TLS; the listener names the cluster all the same
            cluster.type = cluster_pb2.Cluster.DiscoveryType.STATIC
    elif found is Discovery.EDS:
        _from_eds(cluster)
    else:
        return
    _apply(cluster, policy, model)
    balance(cluster, policy.load_balancer)
    yield cluster


def _targets(service: Service, rule: Rule | None, model: MeshModel) -> Iterator[_Target]:
    for port in service.ports:
        if port.protocol is Protocol.UDP:
            continue
        for subset in ("", *rule.subsets) if rule is not None else ("",):
            policy = effective_policy(rule, port.number, subset, model)
            yield _Target(service, port, subset, rule, policy)


def _outbound(target: _Target, model: MeshModel, client: Client) -> Iterator[cluster_pb2.Cluster]:
    service, port, subset, rule, policy = target
    found = discovery(service, policy, client, is_http=port.protocol.is_http)
    planned = upstream_tls(
        service, port, policy, rule=rule, client=client, found=found, model=model
    )
    refused = planned.kind is TlsKind.REFUSED
    pattern = model.mesh_config.outbound_cluster_stat_name
    cluster = new_cluster(
        names.outbound_cluster(service, port, subset),
        None if refused else found,
        model,
        stat_name=stat_name(pattern, service.host, port, subset),
    )
    cluster.metadata.CopyFrom(istio_metadata(_metadata(target, planned)))
    add_metric_fields(cluster.metadata, service_fields(service))
    if refused:
        yield cluster
        return
    if is_looked_up(found):
        endpoints = load_assignment(service, port, model, subset=subset, rule=rule, client=client)
        if not endpoints.endpoints:
            return
        cluster.load_assignment.CopyFrom(endpoints)
        _look_up(cluster, model)
    elif found is Discovery.EDS:
        _from_eds(cluster)
    _apply(cluster, policy, model)
    _balance(cluster, found, target, model)
    by_host = found is Discovery.FORWARD_PROXY
    _speak(cluster, planned, target, model, by_host=by_host, at_gateway=not client.is_sidecar)
    yield cluster


def _from_eds(cluster: cluster_pb2.Cluster) -> None:
    cluster.eds_cluster_config.CopyFrom(
        _Cluster.EdsClusterConfig(eds_config=from_ads(), service_name=cluster.name)
    )


def _look_up(cluster: cluster_pb2.Cluster, model: MeshModel) -> None:
    cluster.dns_refresh_rate.CopyFrom(duration(model.mesh_config.dns_refresh_rate))
    cluster.dns_jitter.CopyFrom(duration(_DNS_JITTER_S))
    cluster.respect_dns_ttl = True
    cluster.dns_lookup_family = _Cluster.DnsLookupFamily.V4_PREFERRED
    # A socket that has asked a while is replaced, or answers of a server that moved never come.
    cluster.typed_dns_resolver_config.CopyFrom(
        extension_pb2.TypedExtensionConfig(
            name="envoy.network.dns_resolver.cares",
            typed_config=packed(
                cares_dns_resolver_pb2.CaresDnsResolverConfig(udp_max_queries=number(_UDP_QUERIES))
            ),
        )
    )


def _apply(cluster: cluster_pb2.Cluster, policy: Policy, model: MeshModel) -> None:
    limit(cluster, policy, model.mesh_config.tcp_keepalive)
    if policy.outlier_detection is not None:
        detect_outliers(cluster, policy.outlier_detection)


def _balance(
    cluster: cluster_pb2.Cluster, found: Discovery, target: _Target, model: MeshModel
) -> None:
    service, port, policy = target.service, target.port, target.policy
    if found is Discovery.FORWARD_PROXY:
        forward_by_host(cluster)
        return
    if found is Discovery.ORIGINAL_DST:
        cluster.lb_policy = _Cluster.LbPolicy.CLUSTER_PROVIDED
        # A route of another port leads here too, so that the same number says something.
        if port.has_target and service.resolution is Resolution.NONE:
            cluster.original_dst_lb_config.upstream_port_override.value = port.target
        return
    balance(cluster, policy.load_balancer)
    if preference(service, policy, model).is_weighted:
        cluster.common_lb_config.locality_weighted_lb_config.SetInParent()
    if service.keeps_sessions:
        cluster.common_lb_config.override_host_status.statuses.extend(
            (_Health.UNKNOWN, _Health.HEALTHY, _Health.DEGRADED, _Health.DRAINING)
        )


def _speak(
    cluster: cluster_pb2.Cluster,
    planned: UpstreamTls,
    target: _Target,
    model: MeshModel,
    *,
    by_host: bool,
    at_gateway: bool,
) -> None:
    service, port, policy = target.service, target.port, target.policy
    upgrade = model.mesh_config.h2_upgrade_policy is MeshH2UpgradePolicy.UPGRADE
    spoken = speaks(port.protocol, policy, mesh_upgrade=upgrade, at_gateway=at_gateway)
    own = planned.settings if planned.kind is TlsKind.OWN else None
    auto_sni = own is not None and not own.sni and spoken is not Speaks.NOT_HTTP
    auto_san = (
        auto_sni
        and own is not None
        and not own.insecure_skip_verify
        and not certificate_names(own, service)
    )
    # Envoy has clusters by the host of requests ask for it in TLS, and expect it.
    set_http_options(
        cluster,
        spoken,
        policy,
        auto_sni=auto_sni or by_host,
        auto_san_validation=auto_san or by_host,
        keeps_case=keeps_case(model),
    )
    secure(
        cluster,
        planned,
        policy,
        service=service,
        port=port,
        subset=target.subset,
        model=model,
        http2=spoken is Speaks.HTTP2,
    )


def _metadata(target: _Target, planned: UpstreamTls) -> Iterator[tuple[str, Value]]:
    yield "default_original_port", target.port.number
    yield "services", [service_metadata(target.service)]
    if target.service.external:
        yield "external", True
    if target.subset:
        yield "subset", target.subset
    if (rule := target.rule) is not None:
        yield "config", config_path("destination-rule", rule.namespace, rule.names[0])
    if planned.settings is not None and planned.settings.mode in _OWN_MODES:
        # As Istio has it: their ALPN is not replaced by the mesh's.
        yield "alpn_override", "false"


_OWN_MODES = (ClientTlsMode.SIMPLE, ClientTlsMode.MUTUAL)
