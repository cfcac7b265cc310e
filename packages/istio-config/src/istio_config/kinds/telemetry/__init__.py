"""Telemetry: what proxies log, trace and count."""

from istio_config.kinds.telemetry._kind import TELEMETRY
from istio_config.kinds.telemetry._spec import (
    AccessLogging,
    CustomTag,
    ModeMatch,
    TelemetrySpec,
    Tracing,
    WorkloadMode,
)

__all__ = [
    "AccessLogging",
    "CustomTag",
    "ModeMatch",
    "TELEMETRY",
    "TelemetrySpec",
    "Tracing",
    "WorkloadMode",
]
