"""Prometheus metrics of certificates; needs the extra `metrics`."""

from certclient._metrics import CertificateMetrics

__all__ = ["CertificateMetrics"]
