"""The TLS that a client speaks to a service's port: what a rule says, else automatic mutual TLS."""

from dataclasses import dataclass
from enum import StrEnum

from envoy_config.plan._auto_mtls import may_use_mutual_tls, uses_mutual_tls_for_all
from envoy_config.plan._client import Client
from envoy_config.plan._discovery import Discovery
from envoy_config.plan._traffic_policy import Policy
from istio_config.kinds.destination_rule import ClientTls, ClientTlsMode
from mesh_model import MeshModel, Port, Rule, Service
from mesh_model.secrets import CONFIG_MAP


class TlsKind(StrEnum):
    """The party that a TLS belongs to."""

    PLAIN = "PLAIN"
    BY_ENDPOINT = "BY_ENDPOINT"
    """The mesh's, to those endpoints that say that they take it."""
    MESH = "MESH"
    """The mesh's, to all endpoints."""
    OWN = "OWN"
    """The service's own."""
    REFUSED = "REFUSED"
    """None can be had as it is wanted: better no connection than one in plaintext."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamTls:
    """The TLS of one cluster."""

    kind: TlsKind
    settings: ClientTls | None = None
    """As a rule has them; None: automatic."""
    by_credential: bool = False
    """Whether certificates come from the control plane by `credentialName`."""


_PLAIN = UpstreamTls(kind=TlsKind.PLAIN)


def upstream_tls(  # noqa: PLR0911 - the order of the cases is the rule
    service: Service,
    port: Port,
    policy: Policy,
    *,
    rule: Rule | None,
    client: Client,
    found: Discovery,
    model: MeshModel,
) -> UpstreamTls:
    """Decide the TLS that a client speaks to a port of a service, or of a subset of it."""
    tls = policy.tls
    if tls is not None and tls.mode is ClientTlsMode.DISABLE:
        return UpstreamTls(kind=TlsKind.PLAIN, settings=tls)
    if client.files is not None and not service.external and not _is_simple(tls):
        files = ClientTls(
            mode=ClientTlsMode.MUTUAL,
            client_certificate=client.files.certificate,
            private_key=client.files.key,
            ca_certificates=client.files.root,
            sni=tls.sni if tls is not None else "",
            subject_alt_names=tls.subject_alt_names if tls is not None else (),
        )
        return UpstreamTls(kind=TlsKind.OWN, settings=files)
    if tls is not None:
        if tls.mode is ClientTlsMode.ISTIO_MUTUAL:
            return UpstreamTls(kind=TlsKind.MESH, settings=tls)
        return _own(tls, rule, client)
    if found is Discovery.FORWARD_PROXY or not may_use_mutual_tls(service, model):
        return _PLAIN
    if found is not Discovery.ORIGINAL_DST:
        return UpstreamTls(kind=TlsKind.BY_ENDPOINT)
    return (
        UpstreamTls(kind=TlsKind.MESH) if uses_mutual_tls_for_all(service, port, model) else _PLAIN
    )


def _is_simple(tls: ClientTls | None) -> bool:
    return tls is not None and tls.mode is ClientTlsMode.SIMPLE


def _own(tls: ClientTls, rule: Rule | None, client: Client) -> UpstreamTls:
    if tls.credential_name:
        # Sidecars may have only the secrets that were meant for certain workloads.
        may = (
            not client.is_sidecar
            or tls.credential_name.startswith(CONFIG_MAP)
            or (rule is not None and bool(rule.selector))
        )
        kind = TlsKind.OWN if may else TlsKind.REFUSED
        return UpstreamTls(kind=kind, settings=tls, by_credential=True)
    if tls.mode is ClientTlsMode.MUTUAL and not (tls.client_certificate and tls.private_key):
        return UpstreamTls(kind=TlsKind.REFUSED, settings=tls)
    return UpstreamTls(kind=TlsKind.OWN, settings=tls)
