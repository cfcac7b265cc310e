"""Telemetry: the logs, traces and metrics of the proxies of some workloads."""

from istio_config.kinds.telemetry._kind import (
    TELEMETRY,
    AccessLogging,
    CustomTag,
    LogFilter,
    TelemetrySpec,
    Tracing,
)
from istio_config.kinds.telemetry._metrics import (
    METRIC_NAMES,
    PROXY_METRICS,
    TAG_NAME,
    IstioMetric,
    Metrics,
    MetricSelector,
    MetricsOverride,
    TagOperation,
    TagOverride,
    selected_metrics,
)
from istio_config.kinds.telemetry._sides import ModeMatch, ProviderRef, WorkloadMode

__all__ = [
    "PROXY_METRICS",
    "METRIC_NAMES",
    "TAG_NAME",
    "TELEMETRY",
    "AccessLogging",
    "CustomTag",
    "IstioMetric",
    "LogFilter",
    "MetricSelector",
    "Metrics",
    "MetricsOverride",
    "ModeMatch",
    "ProviderRef",
    "TagOperation",
    "TagOverride",
    "TelemetrySpec",
    "Tracing",
    "WorkloadMode",
    "selected_metrics",
]
