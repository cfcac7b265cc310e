"""Prometheus metrics of a supervised Envoy; needs the extra `metrics`."""

from envoy_supervisor._metrics import EnvoyMetrics

__all__ = ["EnvoyMetrics"]
