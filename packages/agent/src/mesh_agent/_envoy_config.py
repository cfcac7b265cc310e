"""How Envoy is run: its bootstrap, where it listens, how it drains."""

import ipaddress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import envoy_supervisor
from mesh_agent import _node as node
from mesh_agent._bootstrap_files import BootstrapFiles
from mesh_agent._flags import Flags
from mesh_agent._proxy_config import ProxyConfig
from mesh_agent._settings import Settings, is_address
from mesh_agent._sockets import sds_socket, xds_socket


def envoy_config(
    settings: Settings,
    *,
    flags: Flags,
    proxy: ProxyConfig,
    identity: node.NodeIdentity,
    pod: node.PodInfo,
    version: str,
    files: BootstrapFiles,
) -> envoy_supervisor.EnvoyConfig:
    listen = _listen_addresses(settings, identity)
    level, component_level = _log_levels(flags)
    region, zone, sub_zone = node.locality(pod.labels)
    bootstrap = envoy_supervisor.BootstrapConfig(
        node_id=identity.node_id,
        node_cluster=node.cluster_name(
            identity,
            service_cluster=proxy.service_cluster,
            pod=pod,
            workload=settings.text("ISTIO_META_WORKLOAD_NAME"),
        ),
        node_metadata=node.node_metadata(
            identity,
            environ=settings.environ,
            proxy_config=proxy.merged,
            proxy_metadata=proxy.proxy_metadata,
            pod=pod,
            version=version,
        ),
        locality=envoy_supervisor.Locality(region=region, zone=zone, sub_zone=sub_zone),
        admin=envoy_supervisor.Address(host=listen.admin, port=proxy.proxy_admin_port),
        xds_socket=xds_socket(settings, proxy),
        sds_socket=sds_socket(settings),
        status_target=envoy_supervisor.Address(host=listen.status, port=proxy.status_port),
        readiness_listener=envoy_supervisor.Address(
            host=listen.everyone, port=settings.port("ENVOY_STATUS_PORT", 15021)
        ),
        prometheus_listener=envoy_supervisor.Address(
            host=listen.everyone, port=settings.port("ENVOY_PROMETHEUS_PORT", 15090)
        ),
    )
    return envoy_supervisor.EnvoyConfig(
        binary=_envoy_binary(flags, settings, proxy),
        bootstrap=bootstrap if settings.flag("DISABLE_ENVOY") else files.whole or bootstrap,
        admin=files.admin,
        directory=settings.under(proxy.config_path),
        drain_time=proxy.drain_duration,
        termination_drain=proxy.termination_drain_duration,
        minimum_drain=_minimum_drain(settings),
        drain_direction=(
            envoy_supervisor.DrainDirection.INBOUND
            if identity.role == "sidecar"
            else envoy_supervisor.DrainDirection.ALL
        ),
        # A bootstrap of the user's own may have its listeners from elsewhere than our relay.
        listener_changes_told=files.whole is None,
        hot_restart=settings.flag("MESH_AGENT_HOT_RESTART", default=True),
        crashes=envoy_supervisor.CrashPolicy(
            budget=5 if settings.flag("MESH_AGENT_RESTART_ENVOY", default=True) else 0
        ),
        parent_shutdown_time=proxy.parent_shutdown_duration,
        log_level=level,
        component_log_level=component_level,
        concurrency=flags.concurrency or proxy.concurrency or 0,
        local_address_ipv6=listen.ipv6,
        extra_args=_override_arguments(settings, files),
    )


def _override_arguments(settings: Settings, files: BootstrapFiles) -> tuple[str, ...]:
    try:
        return files.override_arguments()
    except envoy_supervisor.BootstrapError as error:
        settings.problems.append(f"ISTIO_BOOTSTRAP_OVERRIDE: {error}")
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _ListenAddresses:
    """Where Envoy's own interfaces listen: for its agent, for the status server, for everyone."""

    admin: str
    status: str
    everyone: str
    ipv6: bool


def _listen_addresses(settings: Settings, identity: node.NodeIdentity) -> _ListenAddresses:
    ipv6 = all(":" in address for address in identity.addresses)
    loopback, wildcard = ("::1", "::") if ipv6 else ("127.0.0.1", "0.0.0.0")  # noqa: S104
    given = settings.text("MESH_AGENT_BIND_ADDRESS")
    if given and not is_address(given):
        settings.problems.append(
            f"MESH_AGENT_BIND_ADDRESS is {given!r}, it must be an IP address of this machine"
        )
        given = ""
    # The admin interface asks nobody who they are: it never leaves the machine.
    stays = bool(given) and ipaddress.ip_address(given).is_loopback
    return _ListenAddresses(
        admin=given if stays else loopback,
        status=given or loopback,
        everyone=given or wildcard,
        ipv6=ipv6,
    )


def _minimum_drain(settings: Settings) -> timedelta:
    """Istio waits at least this long only where it also ends early; so do we."""
    if not settings.flag("EXIT_ON_ZERO_ACTIVE_CONNECTIONS"):
        return timedelta()
    return settings.duration("MINIMUM_DRAIN_DURATION", timedelta(seconds=5))


def _envoy_binary(flags: Flags, settings: Settings, proxy: ProxyConfig) -> Path:
    explicit = Path(flags.envoy_path) if flags.envoy_path else None
    configured = Path(proxy.binary_path)
    if settings.flag("DISABLE_ENVOY"):
        return configured  # which is never run, and need not be there
    if explicit is None and "ENVOY_PATH" not in settings.environ and configured.is_file():
        explicit = configured
    try:
        return envoy_supervisor.find_envoy(explicit, settings.environ)
    except envoy_supervisor.EnvoyNotFound as error:
        settings.problems.append(str(error))
        return configured


def _log_levels(flags: Flags) -> tuple[str, str]:
    """Istio's level flag may mix a level with `component:level` items."""
    level, components = "warning", []
    for item in filter(None, (part.strip() for part in flags.proxy_log_level.split(","))):
        if ":" in item:
            components.append(item)
        else:
            level = item
    return level, ",".join(components) or flags.proxy_component_log_level
