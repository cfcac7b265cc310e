"""The authority's metrics, under the names istiod gives them where it has one.

Those of istiod are gauges in form only: a Prometheus counter's name must end in `_total`, and
dashboards written for istiod ask for the names without it.
"""

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge

from mesh_ca.authority._authority import Authority


class CertificateMetrics:
    """Counts the calls for certificates and their results, since the start."""

    def __init__(self, registry: CollectorRegistry, authority: Authority) -> None:
        """Register the instruments."""
        self.requests = Gauge(
            "citadel_server_csr_count", "Signing requests received.", registry=registry
        )
        self.authentication_failures = Gauge(
            "citadel_server_authentication_failure_count",
            "Calls whose sender could not be authenticated.",
            registry=registry,
        )
        self.unreadable_requests = Gauge(
            "citadel_server_csr_parsing_err_count",
            "Signing requests that could not be parsed or were not accepted.",
            registry=registry,
        )
        self.unusable_identities = Gauge(
            "citadel_server_id_extraction_err_count",
            "Callers whose identity this authority does not certify.",
            registry=registry,
        )
        self.signing_errors = Gauge(
            "citadel_server_csr_sign_err_count",
            "Signing requests refused, by error.",
            ["error"],
            registry=registry,
        )
        self.issued = Gauge(
            "citadel_server_success_cert_issuance_count",
            "Certificates issued.",
            registry=registry,
        )
        Gauge(
            "citadel_server_cert_chain_expiry_timestamp",
            "Unix time when the signing certificate or one above it expires, seconds.",
            registry=registry,
        ).set_function(_chain_expiry(authority))
        Gauge(
            "citadel_server_root_cert_expiry_timestamp",
            "Unix time when the root that vouches for the signing certificate expires, seconds.",
            registry=registry,
        ).set_function(_root_expiry(authority))
        for name, meaning, moment in (
            ("cert_chain", "the signing certificate or one above it expires", _chain_expiry),
            ("root_cert", "the root that vouches for it expires", _root_expiry),
        ):
            Gauge(
                f"citadel_server_{name}_expiry_seconds",
                f"Seconds until {meaning}.",
                registry=registry,
            ).set_function(_left_until(moment(authority)))


class RotationMetrics:
    """Counts the changes of the authority's own certificates."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the instruments."""
        self.changes = Counter(
            "mesh_ca_authority_changes",
            "Changes of the signing certificate or the trust bundle since the start.",
            registry=registry,
        )
        self.problem = Gauge(
            "mesh_ca_authority_problem",
            "1 while the authority's directory can't be used and older certificates are.",
            registry=registry,
        )


class SignerMetrics:
    """Counts the processes that sign."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the instruments."""
        self.running = Gauge(
            "mesh_ca_signer_processes", "Signer processes that run.", registry=registry
        )
        self.ended = Counter(
            "mesh_ca_signer_processes_ended",
            "Signer processes that ended, hung or could not be started, since the start.",
            registry=registry,
        )


def _chain_expiry(authority: Authority) -> Callable[[], float]:
    def read() -> float:  # at each scrape: the signer may have been replaced
        return authority.not_after.timestamp()

    return read


def _root_expiry(authority: Authority) -> Callable[[], float]:
    def read() -> float:
        return authority.root_not_after.timestamp()

    return read


def _left_until(moment: Callable[[], float]) -> Callable[[], float]:
    def read() -> float:
        return moment() - time.time()

    return read
