"""A collector of reports: its address, the TLS settings for it, and its cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias, assert_never

import msgspec

from envoy_supervisor._errors import BootstrapError
from envoy_supervisor._json import JSON, clean_text
from envoy_supervisor.bootstrap._static_resources import TYPES, http2_options, mesh_secrets
from mesh_lifecycle import check_fields


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A collector: a DNS name or an IP address, and a port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read `host:port`, an IPv6 host in brackets. Raises `BootstrapError`."""
        host, colon, port = text.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise BootstrapError(f"address {text!r}: an IPv6 host stands in brackets: [::1]:9411")
        if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise BootstrapError(f"address {text!r} is not host:port, such as otel.example:4317")
        return cls(host=host, port=int(port))


class ClientTls(msgspec.Struct, frozen=True, kw_only=True):
    """TLS towards a collector, from files. Envoy reads the files once, when it starts.

    Name them in `EnvoyConfig.watched_files` to have Envoy replaced when they change.

    roots: the trusted roots, PEM. certificate, private_key: presented to the collector; both or
        neither.
    """

    server_name: str
    roots: Path
    certificate: Path | None = None
    private_key: Path | None = None

    def __post_init__(self) -> None:
        check_fields(self, error=BootstrapError)


class MeshTls(msgspec.Struct, frozen=True, kw_only=True):
    """TLS towards a collector inside the mesh, with the workload certificate (from SDS).

    identities: names that the collector may have: SPIFFE ids or DNS names, at least one.
    server_name: the SNI; None: none.
    """

    identities: tuple[str, ...]
    server_name: str | None = None


Tls: TypeAlias = ClientTls | MeshTls


def collector_cluster(
    name: str, target: Target, tls: Tls | None, *, http2: bool = False
) -> dict[str, JSON]:
    """Return a cluster that is resolved by DNS and follows its records' lifetime."""
    address: JSON = {"socket_address": {"address": target.host, "port_value": target.port}}
    cluster: dict[str, JSON] = {
        "name": name,
        "alt_stat_name": f"{name};",
        "cluster_type": {
            "name": "envoy.cluster.dns",
            "typed_config": {
                "@type": f"{TYPES}.clusters.dns.v3.DnsCluster",
                "respect_dns_ttl": True,
                "dns_lookup_family": "ALL",
            },
        },
        "connect_timeout": "1s",
        "lb_policy": "ROUND_ROBIN",
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
        },
    }
    if http2:
        cluster["typed_extension_protocol_options"] = http2_options()
    if tls is not None:
        cluster["transport_socket"] = _transport_socket(tls)
    return cluster


def _transport_socket(tls: Tls) -> dict[str, JSON]:
    match tls:
        case ClientTls():
            context = _from_files(tls)
        case MeshTls(identities=()):
            raise BootstrapError(
                "TLS to a collector inside the mesh: name at least one identity it may have, such "
                "as spiffe://cluster.local/ns/monitoring/sa/collector"
            )
        case MeshTls(identities=identities):
            context = mesh_secrets(tuple(_name_matcher(name) for name in identities))
        case _:
            assert_never(tls)
    return {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": f"{TYPES}.transport_sockets.tls.v3.UpstreamTlsContext",
            **({"sni": clean_text(tls.server_name)} if tls.server_name else {}),
            "common_tls_context": context,
        },
    }


def _from_files(tls: ClientTls) -> dict[str, JSON]:
    context: dict[str, JSON] = {
        "validation_context": {
            "trusted_ca": {"filename": str(tls.roots)},
            # Without this every certificate of these roots would be accepted.
            "match_typed_subject_alt_names": [_name_matcher(tls.server_name)],
        }
    }
    if tls.certificate is not None and tls.private_key is not None:
        pair: dict[str, JSON] = {
            "certificate_chain": {"filename": str(tls.certificate)},
            "private_key": {"filename": str(tls.private_key)},
        }
        context["tls_certificates"] = [pair]
    elif tls.certificate is not None or tls.private_key is not None:
        raise BootstrapError(
            f"TLS to {tls.server_name}: a certificate and a private key belong together"
        )
    return context


def _name_matcher(name: str) -> JSON:
    kind = "URI" if "://" in name else "DNS"
    return {"san_type": kind, "matcher": {"exact": clean_text(name)}}
