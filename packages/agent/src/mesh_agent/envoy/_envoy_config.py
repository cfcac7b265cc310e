"""How Envoy is started: its binary, bootstrap, listeners, log levels and drain times."""

import ipaddress
import logging
import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import msgspec

import envoy_supervisor
from istio_settings import (
    NodeIdentity,
    PodInfo,
    ProxyConfig,
    Settings,
    SettingWithoutEffect,
    cluster_name,
    is_address,
    locality,
    node_metadata,
    workload_labels,
)
from mesh_agent.config._flags import Flags
from mesh_agent.config._sockets import sds_socket, xds_socket
from mesh_agent.config._typed_metadata import typed_metadata
from mesh_agent.envoy._binary_flags import has_flag, names_flag
from mesh_agent.envoy._bootstrap_files import BootstrapFiles
from mesh_agent.envoy._collectors import collectors, without_own_tracer
from mesh_agent.envoy._limits import max_connections, max_heap_bytes, runtime_values
from mesh_agent.envoy._stats import stats_settings

log = logging.getLogger(__name__)


def envoy_config(
    settings: Settings,
    *,
    flags: Flags,
    proxy: ProxyConfig,
    identity: NodeIdentity,
    pod: PodInfo,
    version: str,
    files: BootstrapFiles,
) -> envoy_supervisor.EnvoyConfig:
    level, component_level = _log_levels(flags)
    typed = typed_metadata(settings, flags=flags, proxy=proxy, version=version)
    bootstrap = _bootstrap(settings, proxy=proxy, identity=identity, pod=pod, typed=typed)
    binary = _envoy_binary(flags, settings, proxy)
    return envoy_supervisor.EnvoyConfig(
        binary=binary,
        bootstrap=bootstrap.config
        if settings.flag("DISABLE_ENVOY")
        else files.whole or bootstrap.config,
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
        # A bootstrap of the user's own may get its listeners from elsewhere than the relay.
        listener_changes_reported=files.whole is None,
        hot_restart=settings.flag("MESH_AGENT_HOT_RESTART", default=True),
        crashes=envoy_supervisor.CrashPolicy(
            budget=5 if settings.flag("MESH_AGENT_RESTART_ENVOY", default=True) else 0
        ),
        parent_shutdown_time=proxy.parent_shutdown_duration,
        log_level=level,
        component_log_level=component_level,
        concurrency=_concurrency(settings, proxy),
        local_address_ipv6=_is_ipv6(identity),
        file_flush_interval=proxy.file_flush_interval,
        skip_deprecated_logs=_skips_deprecated_logs(settings, binary),
        enable_core_dump=_optional_flag(
            settings, "ISTIO_ENVOY_ENABLE_CORE_DUMP", binary, "--enable-core-dump"
        ),
        watched_files=bootstrap.files if files.whole is None else (),
        extra_args=_override_arguments(settings, files),
    )


class _Bootstrap(msgspec.Struct, frozen=True, kw_only=True):
    """A bootstrap, and the files it names."""

    config: envoy_supervisor.BootstrapConfig
    files: tuple[Path, ...]


def _bootstrap(
    settings: Settings,
    *,
    proxy: ProxyConfig,
    identity: NodeIdentity,
    pod: PodInfo,
    typed: Mapping[str, envoy_supervisor.JSON],
) -> _Bootstrap:
    listen = _listen_addresses(settings, identity)
    metadata = node_metadata(
        identity,
        environ=settings.environ,
        proxy_config=without_own_tracer(proxy.merged),
        pod=pod,
        typed=typed,
    )
    labels = workload_labels(settings.environ, pod)
    cluster = cluster_name(
        identity,
        service_cluster=proxy.service_cluster,
        labels=labels,
        workload=settings.text("ISTIO_META_WORKLOAD_NAME"),
        naming=proxy.service_naming,
    )
    region, zone, sub_zone = locality(labels)
    listeners = _own_listeners(settings, proxy, listen)
    sinks = collectors(settings, proxy, service_name=cluster, metadata=metadata)
    config = envoy_supervisor.BootstrapConfig(
        node_id=identity.node_id,
        node_cluster=cluster,
        node_metadata=metadata,
        locality=envoy_supervisor.Locality(region=region, zone=zone, sub_zone=sub_zone),
        admin=envoy_supervisor.Address(host=listen.admin, port=proxy.proxy_admin_port),
        xds_socket=xds_socket(settings, proxy),
        sds_socket=sds_socket(settings),
        status_target=envoy_supervisor.Address(host=listen.status, port=proxy.status_port),
        readiness_listener=listeners["ENVOY_STATUS_PORT"],
        readiness_proxy_protocol=settings.flag("ENVOY_STATUS_PORT_ENABLE_PROXY_PROTOCOL"),
        prometheus_listener=listeners["ENVOY_PROMETHEUS_PORT"],
        secure_prometheus_listener=listeners.get("ENVOY_SECURE_METRICS_PORT"),
        secure_metrics_listener=listeners.get("ENVOY_SECURE_MERGED_METRICS_PORT"),
        delta_xds=settings.flag("ISTIO_DELTA_XDS", default=True),
        dual_stack=settings.flag("ISTIO_DUAL_STACK"),
        runtime=runtime_values(proxy, settings.problems),
        max_connections=max_connections(proxy, metadata, settings.problems),
        max_heap_bytes=max_heap_bytes(settings),
        tracing=sinks.tracing,
        statsd=sinks.statsd,
        metrics_service=sinks.metrics_service,
        access_log_service=sinks.access_log_service,
        load_reporting=sinks.load_reporting,
        outlier_log=_outlier_log(settings, metadata),
        stats=stats_settings(proxy, pod, addresses=identity.addresses, problems=settings.problems),
    )
    return _Bootstrap(config=config, files=sinks.tls_files)


def _own_listeners(
    settings: Settings, proxy: ProxyConfig, listen: "_ListenAddresses"
) -> Mapping[str, envoy_supervisor.Address]:
    """Return Envoy's own listeners by the variable of their port; no two may share a port."""
    ports = {
        "ENVOY_STATUS_PORT": settings.port("ENVOY_STATUS_PORT", 15021),
        "ENVOY_PROMETHEUS_PORT": settings.port("ENVOY_PROMETHEUS_PORT", 15090),
        "ENVOY_SECURE_METRICS_PORT": settings.optional_port("ENVOY_SECURE_METRICS_PORT"),
        "ENVOY_SECURE_MERGED_METRICS_PORT": settings.optional_port(
            "ENVOY_SECURE_MERGED_METRICS_PORT"
        ),
    }
    # Only the plaintext listener is kept on the machine: the others ask for a certificate.
    local = settings.flag("METRICS_LOCALHOST_ACCESS_ONLY")
    taken = {proxy.status_port: "statusPort", proxy.proxy_admin_port: "proxyAdminPort"}
    listeners = {}
    for name, port in ports.items():
        if port is None:
            continue
        if (other := taken.setdefault(port, name)) != name:
            settings.problems.append(f"{other} and {name} are both {port}, each needs its own port")
        stays = local and name == "ENVOY_PROMETHEUS_PORT"
        host = listen.admin if stays else listen.everyone
        listeners[name] = envoy_supervisor.Address(host=host, port=port)
    return listeners


def _outlier_log(settings: Settings, metadata: Mapping[str, envoy_supervisor.JSON]) -> Path | None:
    path = metadata.get("OUTLIER_LOG_PATH")
    return settings.under(path) if isinstance(path, str) and path else None


def _override_arguments(settings: Settings, files: BootstrapFiles) -> tuple[str, ...]:
    try:
        return files.override_arguments()
    except envoy_supervisor.BootstrapError as error:
        settings.problems.append(f"ISTIO_BOOTSTRAP_OVERRIDE: {error}")
        return ()


class _ListenAddresses(msgspec.Struct, frozen=True, kw_only=True):
    """The hosts of Envoy's listeners: of admin, of the status server, and of all others."""

    admin: str
    status: str
    everyone: str


def _listen_addresses(settings: Settings, identity: NodeIdentity) -> _ListenAddresses:
    loopback, wildcard = (
        ("::1", "::") if _is_ipv6(identity) else ("127.0.0.1", "0.0.0.0")  # noqa: S104
    )
    given = settings.text("MESH_AGENT_BIND_ADDRESS")
    if given and not is_address(given):
        settings.problems.append(
            f"MESH_AGENT_BIND_ADDRESS is {given!r}, it must be an IP address of this machine"
        )
        given = ""
    # The admin interface does not authenticate its callers: it listens on the machine only.
    stays = bool(given) and ipaddress.ip_address(given).is_loopback
    return _ListenAddresses(
        admin=given if stays else loopback,
        status=given or loopback,
        everyone=given or wildcard,
    )


def _concurrency(settings: Settings, proxy: ProxyConfig) -> int:
    """Return how many worker threads Envoy has; 0 for one a core."""
    limit = settings.whole_number("ISTIO_CPU_LIMIT", 0)
    if proxy.concurrency is not None:
        return proxy.concurrency
    if not proxy.all_cores:
        return limit
    if 0 < limit < (cores := os.cpu_count() or 1):
        settings.without_effect.append(
            SettingWithoutEffect(
                "ISTIO_CPU_LIMIT",
                f"concurrency is 0, which is one worker thread for each of {cores} cores; without "
                f"concurrency there would be {limit}",
            )
        )
    return 0


def _skips_deprecated_logs(settings: Settings, binary: Path) -> bool:
    """Return whether Envoy is not to warn of deprecated fields; as in Istio, unless asked to."""
    name, flag = "ENVOY_SKIP_DEPRECATED_LOGS", "--skip-deprecated-logs"
    if settings.environ.get(name):
        return _optional_flag(settings, name, binary, flag)
    return settings.flag(name, default=not settings.flag("DISABLE_ENVOY")) and names_flag(
        binary, flag
    )


def _optional_flag(settings: Settings, name: str, binary: Path, flag: str) -> bool:
    """Return whether Envoy is to have a flag, which Envoys of some releases do not know."""
    if not settings.flag(name) or settings.flag("DISABLE_ENVOY"):
        return False
    if not has_flag(binary, flag):
        settings.without_effect.append(
            SettingWithoutEffect(name, f"this Envoy, {binary}, has no flag {flag}")
        )
        return False
    return True


def _is_ipv6(identity: NodeIdentity) -> bool:
    return all(":" in address for address in identity.addresses)


def _minimum_drain(settings: Settings) -> timedelta:
    """Return the minimum drain, which as in Istio counts only where draining may end early."""
    if not settings.flag("EXIT_ON_ZERO_ACTIVE_CONNECTIONS"):
        return timedelta()
    return settings.duration("MINIMUM_DRAIN_DURATION", timedelta(seconds=5))


def _envoy_binary(flags: Flags, settings: Settings, proxy: ProxyConfig) -> Path:
    explicit = Path(flags.envoy_path) if flags.envoy_path else None
    configured = Path(proxy.binary_path)
    if settings.flag("DISABLE_ENVOY"):
        return configured  # never run, so it need not exist
    if explicit is None and "ENVOY_PATH" not in settings.environ and settings.is_file(configured):
        explicit = configured
    try:
        return envoy_supervisor.find_envoy(explicit, settings.environ)
    except envoy_supervisor.EnvoyNotFound as error:
        settings.problems.append(str(error))
        return configured


def _log_levels(flags: Flags) -> tuple[str, str]:
    """Return Envoy's level and component levels; the level flag may hold both.

    An item of another shape is left out, as in Istio: Envoy would not start with it.
    """
    level, items = "warning", []
    for item in _split(flags.proxy_log_level):
        if ":" in item:
            items.append(item)
        else:
            level = item
    components = []
    for item in items or _split(flags.proxy_component_log_level):
        component, _, component_level = item.partition(":")
        if component and component_level and ":" not in component_level:
            components.append(item)
        else:
            log.warning(
                "ignored an item of Envoy's log levels: it must be component:level",
                extra={"item": item},
            )
    return level, ",".join(components)


def _split(text: str) -> list[str]:
    return [item for item in (part.strip() for part in text.split(",")) if item]
