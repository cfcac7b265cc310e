"""Transport sockets of clusters: the TLS that is planned, and the PROXY protocol around it."""

from envoy_config.generate import _secret_references as secrets
from envoy_config.generate import _tls as tls
from envoy_config.generate._messages import base_pb2, cluster_pb2, secret_pb2, struct
from envoy_config.plan import _envoy_names as names
from envoy_config.plan._traffic_policy import Policy
from envoy_config.plan._upstream_tls import TlsKind, UpstreamTls
from istio_config.kinds.destination_rule import ClientTls, ClientTlsMode, ProxyProtocolVersion
from mesh_identity import SpiffeId
from mesh_model import MeshModel, Port, Service
from mesh_model.secrets import credential, credential_roots


def secure(
    cluster: cluster_pb2.Cluster,
    planned: UpstreamTls,
    policy: Policy,
    *,
    service: Service,
    port: Port,
    subset: str,
    model: MeshModel,
    http2: bool,
) -> None:
    """Set the transport socket of a cluster, or those that its endpoints choose from."""
    socket = None
    settings = planned.settings
    if planned.kind in (TlsKind.MESH, TlsKind.BY_ENDPOINT):
        sni = settings.sni if settings is not None else ""
        peers = settings.subject_alt_names if settings is not None else ()
        socket = tls.client_socket(
            peers=peers or expected_peers(service, model),
            sni=sni or names.sni_cluster(service, port, subset),
            http2=http2,
        )
    elif planned.kind is TlsKind.OWN and settings is not None:
        socket = _own(planned, settings, service, model, http2=http2)
    if planned.kind is TlsKind.BY_ENDPOINT and socket is not None:
        match = cluster_pb2.Cluster.TransportSocketMatch
        plain = tls.plain_socket()
        cluster.transport_socket_matches.extend(
            (
                match(
                    name="tlsMode-istio",
                    match=struct([("tlsMode", "istio")]),
                    transport_socket=_wrapped(socket, policy),
                ),
                match(
                    name="tlsMode-disabled",
                    match=struct([]),
                    transport_socket=_wrapped(plain, policy),
                ),
            )
        )
    elif socket is not None or policy.proxy_protocol is not None:
        cluster.transport_socket.CopyFrom(_wrapped(socket or tls.plain_socket(), policy))


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


def certificate_names(settings: ClientTls, service: Service) -> tuple[str, ...]:
    """Return the names of which a service's own certificate must have one."""
    return settings.subject_alt_names or service.subject_alt_names


def _wrapped(socket: base_pb2.TransportSocket, policy: Policy) -> base_pb2.TransportSocket:
    if policy.proxy_protocol is None:
        return socket
    version = 1 if policy.proxy_protocol.version is ProxyProtocolVersion.V1 else 2
    return tls.behind_proxy_protocol(socket, version=version)


def _own(
    planned: UpstreamTls, settings: ClientTls, service: Service, model: MeshModel, *, http2: bool
) -> base_pb2.TransportSocket:
    certificate, roots = None, None
    mutual = settings.mode is ClientTlsMode.MUTUAL
    if planned.by_credential:
        if mutual:
            certificate = secrets.mesh_secret(credential(settings.credential_name))
        roots = secrets.mesh_secret(credential_roots(settings.credential_name))
    else:
        if mutual:
            certificate = _file(
                secrets.files_certificate(settings.client_certificate, settings.private_key)
            )
        path = settings.ca_certificates
        roots = _file(secrets.file_roots(path) if path else secrets.SYSTEM_ROOTS)
    return tls.origination_socket(
        tls.Origination(
            sni=settings.sni,
            names=certificate_names(settings, service),
            certificate=certificate,
            roots=None if settings.insecure_skip_verify else roots,
            crl=settings.ca_crl,
            http2=http2,
            settings=model.mesh_config.tls_defaults,
        )
    )


def _file(name: str) -> secret_pb2.SdsSecretConfig:
    return secrets.agent_secret(name, waits_for_ever=False)
