"""The kind Telemetry."""

from istio_config.kinds.kind import Kind
from istio_config.kinds.telemetry._mistakes import mistakes, warnings
from istio_config.kinds.telemetry._spec import TelemetrySpec

TELEMETRY = Kind(
    name="Telemetry",
    group="telemetry.istio.io",
    versions=("v1", "v1alpha1"),
    spec=TelemetrySpec,
    validate=mistakes,
    warn=warnings,
)
"""Logs, traces and metrics of the proxies of some workloads."""
