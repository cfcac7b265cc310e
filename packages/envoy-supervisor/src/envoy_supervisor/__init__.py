"""Runs an Envoy proxy: its bootstrap, its process, its drain, its admin interface."""

from envoy_supervisor._address import Address, UnixAddress
from envoy_supervisor._config import CrashPolicy, DrainDirection, EnvoyConfig, EnvoyState
from envoy_supervisor._envoy import Envoy, EnvoyStatus, running
from envoy_supervisor._errors import (
    AdminError,
    BootstrapError,
    EnvoyExited,
    EnvoyNotFound,
    EnvoyNotReady,
    EnvoySupervisorError,
    RestartRefused,
)
from envoy_supervisor._exit import Exit, ExitCause
from envoy_supervisor._json import JSON
from envoy_supervisor._restart_on_change import restart_on_change
from envoy_supervisor.admin._client import AdminClient
from envoy_supervisor.admin._open_connections import active_connections
from envoy_supervisor.admin._stats import parse_stats
from envoy_supervisor.bootstrap._collectors import ClientTls, MeshTls, Target
from envoy_supervisor.bootstrap._override import bootstrap_override
from envoy_supervisor.bootstrap._render import BootstrapConfig, Locality, render_bootstrap
from envoy_supervisor.bootstrap._stats_config import StatsConfig
from envoy_supervisor.bootstrap._telemetry import (
    AccessLogService,
    Datadog,
    LoadReportingService,
    MetricsService,
    OpenTelemetry,
    Statsd,
    Tracing,
    Zipkin,
    tracing_by_name,
)
from envoy_supervisor.handover._hot_restart_files import release_directory
from envoy_supervisor.processes._arguments import envoy_arguments
from envoy_supervisor.processes._find_binary import find_envoy
from envoy_supervisor.processes._memory_cgroup import memory_limit

__all__ = [
    # what Envoy is started with
    "JSON",
    "Address",
    "BootstrapConfig",
    "Locality",
    "StatsConfig",
    "AccessLogService",
    "ClientTls",
    "Datadog",
    "LoadReportingService",
    "MeshTls",
    "MetricsService",
    "OpenTelemetry",
    "Statsd",
    "Target",
    "Tracing",
    "Zipkin",
    "UnixAddress",
    "bootstrap_override",
    "memory_limit",
    "render_bootstrap",
    "tracing_by_name",
    # how it is run
    "CrashPolicy",
    "DrainDirection",
    "EnvoyConfig",
    "envoy_arguments",
    "find_envoy",
    "release_directory",
    # running it
    "Envoy",
    "EnvoyState",
    "EnvoyStatus",
    "Exit",
    "ExitCause",
    "restart_on_change",
    "running",
    # asking it
    "AdminClient",
    "active_connections",
    "parse_stats",
    # errors
    "AdminError",
    "BootstrapError",
    "EnvoyExited",
    "EnvoyNotFound",
    "EnvoyNotReady",
    "EnvoySupervisorError",
    "RestartRefused",
]
