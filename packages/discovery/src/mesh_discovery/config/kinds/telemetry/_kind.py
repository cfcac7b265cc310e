"""The kind Telemetry."""

from mesh_discovery.config.kinds._kind import Kind
from mesh_discovery.config.kinds.telemetry._mistakes import mistakes, warnings
from mesh_discovery.config.kinds.telemetry._spec import TelemetrySpec

TELEMETRY = Kind(
    name="Telemetry",
    group="telemetry.istio.io",
    versions=("v1", "v1alpha1"),
    spec=TelemetrySpec,
    validate=mistakes,
    warn=warnings,
)
"""Logs, traces and metrics of the proxies of some workloads."""
