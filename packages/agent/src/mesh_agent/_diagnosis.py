"""Tells the doctor where everything of this agent is."""

import ipaddress
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import certclient
import envoy_supervisor
import mesh_doctor
import xds_proxy
from mesh_agent._config import AgentConfig
from mesh_agent.dns._dns_server import dns_config

_CLOCKS = ((8080, "/ready"), (15014, "/version"))
"""Pages of Istio's control plane, and of mesh-discovery, that anybody may have."""
OWN_PROGRAMS = ("mesh-agent", "pilot-agent", "mesh_agent", "mesh_agent._process")
"""Words of an agent's command line."""


def doctor_config(
    config: AgentConfig,
    problems: tuple[str, ...],
    *,
    examined: str = "",
    examined_fix: str = "",
    other_user: str = "",
    is_given: bool = True,
) -> mesh_doctor.DoctorConfig:
    """Return what is to be examined.

    problems: those of the configuration; what they name has its default in `config`.
    examined, examined_fix, other_user: see `DoctorConfig`.
    is_given: whether anybody gave settings; if not, nothing says which workload it is.
    """
    admin = _admin(config)
    host = reached_at(config.status.host)
    servers = tuple(_servers(config))
    token = _token(config, is_given=is_given)
    return mesh_doctor.DoctorConfig(
        examined=examined,
        examined_fix=examined_fix,
        other_user=other_user,
        problems=tuple(_not_examined(problems, servers, token)),
        servers=servers,
        learned_roots=config.learned_roots,
        clocks=tuple(_clocks(config.relay.upstream.address)),
        agent=mesh_doctor.HttpPlace(host=host, port=config.status.port, path="/debug/status"),
        certificates=admin,
        token=token,
        directories=tuple(_directories(config)),
        ports=tuple(_ports(config)),
        dns=_dns(config),
        envoy=_envoy(config),
        interception=_interception(config),
        workload=f"{config.identity.pod_name}.{config.identity.namespace}" if is_given else "",
        own_programs=OWN_PROGRAMS,
    )


def _not_examined(
    problems: tuple[str, ...],
    servers: tuple[mesh_doctor.Server, ...],
    token: mesh_doctor.TokenPlace | None,
) -> Iterator[str]:
    """Yield the problems without those of files that the doctor looks at, and says more about."""
    files = {str(each.roots) for each in servers if isinstance(each.roots, Path)}
    if token is not None:
        files.add(str(token.path))
    for each in problems:
        if not any(f"{file} does not exist" in each for file in files):
            yield each


def _servers(config: AgentConfig) -> Iterator[mesh_doctor.Server]:
    upstream, authority = config.relay.upstream, config.authority
    of_both = authority is not None and _is_same(upstream, authority)
    yield mesh_doctor.Server(
        serves="configuration and certificates" if of_both else "configuration",
        address=upstream.address,
        name=upstream.server_name or _host(upstream.address),
        name_setting=upstream.server_name_setting,
        roots=upstream.root_certificate,
        root_setting="XDS_ROOT_CA and CA_ROOT_CA" if of_both else "XDS_ROOT_CA",
        signs=of_both,
    )
    for further in upstream.further_addresses:
        yield mesh_doctor.Server(
            serves="configuration",
            address=further.address,
            name=further.server_name or _host(further.address),
            name_setting=upstream.server_name_setting,
            roots=upstream.root_certificate,
            root_setting="XDS_ROOT_CA",
            signs=False,
        )
    if authority is not None and not of_both:
        yield mesh_doctor.Server(
            serves="certificates",
            address=authority.address,
            name=authority.server_name or _host(authority.address),
            name_setting=authority.server_name_setting,
            roots=authority.root_certificate,
            root_setting="CA_ROOT_CA",
            signs=True,
        )


def _is_same(upstream: xds_proxy.UpstreamConfig, authority: certclient.IstioCaConfig) -> bool:
    return (upstream.address, upstream.server_name, upstream.root_certificate) == (
        authority.address,
        authority.server_name,
        authority.root_certificate,
    )


def _host(address: str) -> str:
    return address.rpartition(":")[0].strip("[]")


def _clocks(address: str) -> Iterator[mesh_doctor.HttpPlace]:
    if host := _host(address):
        for port, path in _CLOCKS:
            yield mesh_doctor.HttpPlace(host=host, port=port, path=path)


def _token(config: AgentConfig, *, is_given: bool) -> mesh_doctor.TokenPlace | None:
    authority = config.authority
    if authority is None or authority.token_path is None:
        return None
    return mesh_doctor.TokenPlace(
        path=authority.token_path,
        namespace=config.identity.namespace if is_given else None,
        service_account=config.identity.service_account if is_given else None,
        needed=authority.client_certificate_path is None,
    )


def _admin(config: AgentConfig) -> mesh_doctor.HttpPlace | None:
    if config.grpc_bootstrap is not None:
        return None
    bootstrap = config.envoy.bootstrap
    admin = config.envoy.admin
    if isinstance(bootstrap, envoy_supervisor.BootstrapConfig):
        admin = bootstrap.admin
    if not isinstance(admin, envoy_supervisor.Address):
        return None
    return mesh_doctor.HttpPlace(host=reached_at(admin.host), port=admin.port, path="/certs")


def reached_at(host: str) -> str:
    """Return where a listener is reached from this machine; empty is every interface."""
    if not host:
        return "127.0.0.1"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if not address.is_unspecified:
        return host
    return "127.0.0.1" if address.version == 4 else "::1"


def _directories(config: AgentConfig) -> Iterator[mesh_doctor.WrittenDirectory]:
    uses: dict[Path, str] = {}
    for path, use in _written(config):
        uses[path] = f"{uses[path]}, {use}" if path in uses else use
    for path, use in uses.items():
        yield mesh_doctor.WrittenDirectory(path=path, use=use)


def _written(config: AgentConfig) -> Iterator[tuple[Path, str]]:
    """Yield each directory that the agent writes to, and what."""
    if config.state.configuration is not None:
        yield config.state.configuration.directory, "saved configuration"
    if config.state.keeps_certificate:
        yield config.state.certificate.parent, "the certificate for the next start"
    if config.learned_roots is not None:
        yield config.learned_roots.parent, "learned roots"
    if config.output is not None:
        yield config.output.directory, "OUTPUT_CERTS"
    if config.grpc_bootstrap is not None:
        yield config.grpc_bootstrap.parent, "the bootstrap of the gRPC program"
    else:
        if config.grpc_beside_envoy is not None and config.grpc_beside_envoy.is_asked_for:
            yield config.grpc_beside_envoy.bootstrap.parent, "the bootstrap of gRPC programs"
        yield config.envoy.directory, "Envoy's bootstrap"
        yield config.secrets.socket_path.parent, "the socket for secrets"
    yield config.relay.socket_path.parent, "the socket for configuration"
    yield Path(tempfile.gettempdir()), "temporary files"


def _ports(config: AgentConfig) -> Iterator[mesh_doctor.PortUse]:
    status = config.status
    yield mesh_doctor.PortUse(
        host=status.host,
        port=status.port,
        use="the agent's status port",
        setting="statusPort in PROXY_CONFIG",
    )
    if config.grpc_bootstrap is None and isinstance(
        config.envoy.bootstrap, envoy_supervisor.BootstrapConfig
    ):
        for use, setting, address in _envoy_ports(config.envoy.bootstrap):
            yield mesh_doctor.PortUse(
                host=address.host, port=address.port, use=use, setting=setting
            )
    if config.names is not None:
        for protocol in mesh_doctor.Protocol:
            yield mesh_doctor.PortUse(
                host=config.names.host,
                port=config.names.port,
                use="the agent's DNS server",
                setting="DNS_PROXY_ADDR",
                protocol=protocol,
            )


def _envoy_ports(
    bootstrap: envoy_supervisor.BootstrapConfig,
) -> Iterator[tuple[str, str, envoy_supervisor.Address]]:
    for use, setting, address in (
        ("Envoy's admin interface", "proxyAdminPort in PROXY_CONFIG", bootstrap.admin),
        ("Envoy's readiness", "ENVOY_STATUS_PORT", bootstrap.readiness_listener),
        ("Envoy's metrics", "ENVOY_PROMETHEUS_PORT", bootstrap.prometheus_listener),
        (
            "Envoy's metrics over TLS",
            "ENVOY_SECURE_METRICS_PORT",
            bootstrap.secure_prometheus_listener,
        ),
        (
            "the agent's metrics over TLS",
            "ENVOY_SECURE_MERGED_METRICS_PORT",
            bootstrap.secure_metrics_listener,
        ),
    ):
        if isinstance(address, envoy_supervisor.Address):
            yield use, setting, address


def _dns(config: AgentConfig) -> mesh_doctor.DnsPlace | None:
    if config.names is None:
        return None
    dns = dns_config(config.names)
    if dns.resolv_conf is None:
        return None
    return mesh_doctor.DnsPlace(
        listens=tuple((each.host, each.port) for each in dns.listen), resolv_conf=dns.resolv_conf
    )


def _envoy(config: AgentConfig) -> mesh_doctor.EnvoyPlace | None:
    if config.grpc_bootstrap is not None:
        return None
    binary = config.envoy.binary
    if not os.path.isfile(binary):  # noqa: PTH113 - is_file raises for names that are too long
        return mesh_doctor.EnvoyPlace(binary=None, missing=f"there is no Envoy at {binary}")
    return mesh_doctor.EnvoyPlace(binary=binary)


def _interception(config: AgentConfig) -> str:
    """Return the interception mode as the control plane is sent it; empty if it is not set."""
    bootstrap = config.envoy.bootstrap
    if not isinstance(bootstrap, envoy_supervisor.BootstrapConfig):
        return ""
    metadata = bootstrap.node_metadata
    proxy = metadata.get("PROXY_CONFIG")
    merged: Mapping[str, object] = proxy if isinstance(proxy, dict) else {}
    mode = metadata.get("INTERCEPTION_MODE") or merged.get("interceptionMode")
    return mode if isinstance(mode, str) else ""
