"""Prometheus metrics, under Istio's names where it has one; needs the extra `metrics`.

outgoing_latency                     seconds spent on requests, added up      request_type="csr"
num_outgoing_requests                requests to the authority                request_type="csr"
num_failed_outgoing_requests         requests that brought no certificate     request_type="csr"
num_outgoing_retries                 tries after the first                    request_type="csr"
cert_expiry_seconds                  to the certificate's end; below 0: past  resource_name
mesh_agent_seconds_until_outage      until the identity is lost, if no renewal succeeds
num_file_watcher_failures_total      directories that could not be watched
num_file_secret_failures_total       files that became invalid
"""

from collections.abc import Iterator
from datetime import timedelta

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from certclient.authorities._authority import CertificateAuthority
from certclient.feed._certificates import Certificates
from certclient.files._file_secrets import FileSecrets
from certclient.files._secret_names import WORKLOAD_CERTIFICATE
from certclient.x509._certificate import Certificate
from certclient.x509._pem import latest_end
from mesh_lifecycle import Clock, SystemClock

OUTAGE = "mesh_agent_seconds_until_outage"
"""The name that mesh-agent has for it; Istio has none."""
_CSR = {"request_type": "csr"}


class CertificateMetrics:
    """Counts requests to authorities and observes certificates; exposes both on `registry`."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        prefix: str = "istio_agent_",
        clock: Clock | None = None,
    ) -> None:
        self._prefix = prefix
        self._clock = clock or SystemClock()
        self._certificates: dict[str, Certificates] = {}
        self._ends: dict[str, tuple[Certificate, float]] = {}
        self._files: list[FileSecrets] = []
        self._requests = self._failed = self._retries = 0
        self._latency_s = 0.0
        registry.register(self)

    def metered(self, authority: CertificateAuthority) -> CertificateAuthority:
        """Return the authority with its requests counted."""
        return _Metered(authority, self)

    def count_retry(self) -> None:
        """Count a try after the first: for `istio_ca(config, on_retry=metrics.count_retry)`."""
        self._retries += 1

    def count_request(self, seconds: float, *, failed: bool) -> None:
        """Count a request to the authority."""
        self._requests += 1
        self._failed += failed
        self._latency_s += seconds

    def show(
        self, certificates: Certificates, *, resource_name: str = WORKLOAD_CERTIFICATE
    ) -> None:
        """Expose when these certificates expire."""
        self._certificates[resource_name] = certificates

    def show_files(self, secrets: FileSecrets) -> None:
        """Expose how often files were invalid or could not be watched."""
        self._files.append(secrets)

    def monotonic(self) -> float:
        """Return the time by which latency is measured."""
        return self._clock.monotonic()

    def collect(self) -> Iterator[Metric]:
        """Return the metrics to the registry. A counter appears when it is first above zero."""
        yield from self._counters()
        expiry = self._metric("cert_expiry_seconds", "gauge", "Seconds to the certificate's end.")
        outage = Metric(
            OUTAGE, "Seconds until the identity is lost, if no renewal succeeds.", "gauge"
        )
        now = self._clock.now()
        for name, certificates in self._certificates.items():
            certificate = certificates.latest
            labels = {"resource_name": name}
            if certificate is not None:
                remaining = certificate.not_after.timestamp() - now
                expiry.add_sample(expiry.name, labels, remaining)
            outage_s = 0.0 if certificate is None else self._end(name, certificate) - now
            outage.add_sample(outage.name, labels, max(0.0, outage_s))
        yield from (metric for metric in (expiry, outage) if metric.samples)

    def _counters(self) -> Iterator[Metric]:
        counted = (
            ("outgoing_latency", "Seconds spent on requests to the authority.", self._latency_s),
            ("num_outgoing_requests", "Requests to the authority.", self._requests),
            ("num_failed_outgoing_requests", "Requests that failed.", self._failed),
            ("num_outgoing_retries", "Tries after the first.", self._retries),
        )
        for name, text, value in counted:
            if value:
                # Istio's names, without the suffix that the client library gives to counters.
                metric = self._metric(name, "unknown", text)
                metric.add_sample(metric.name, _CSR, value)
                yield metric
        statuses = [secrets.status for secrets in self._files]
        for name, text, total in (
            (
                "num_file_watcher_failures",
                "Directories that could not be watched.",
                sum(status.watch_failures for status in statuses),
            ),
            (
                "num_file_secret_failures",
                "Certificate files that became invalid.",
                sum(status.load_failures for status in statuses),
            ),
        ):
            if total:
                metric = self._metric(name, "counter", text)
                metric.add_sample(f"{metric.name}_total", {}, total)
                yield metric

    def _metric(self, name: str, kind: str, text: str) -> Metric:
        return Metric(f"{self._prefix}{name}", text, kind)

    def _end(self, name: str, certificate: Certificate) -> float:
        """Return when the chain or the last root expires: TLS needs both."""
        known = self._ends.get(name)
        if known is not None and known[0] is certificate:
            return known[1]
        roots_end = latest_end(certificate.trust_bundle_pem) or certificate.not_after
        end = min(certificate.not_after, roots_end).timestamp()
        self._ends[name] = certificate, end
        return end


class _Metered:
    def __init__(self, authority: CertificateAuthority, metrics: CertificateMetrics) -> None:
        self._authority = authority
        self._metrics = metrics

    async def sign(self, csr_pem: bytes, *, lifetime: timedelta) -> tuple[bytes, ...]:
        started = self._metrics.monotonic()
        failed = True
        try:
            chain = await self._authority.sign(csr_pem, lifetime=lifetime)
            failed = False
            return chain
        finally:
            self._metrics.count_request(self._metrics.monotonic() - started, failed=failed)
