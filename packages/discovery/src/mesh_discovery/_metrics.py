"""The control plane's own metrics; the xDS server and the CA keep theirs. Names are Istio's
where it has one.
"""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
    """Instruments on one registry."""

    def __init__(self, registry: CollectorRegistry, *, version: str) -> None:
        self.config_loads = Counter(
            "mesh_discovery_config_loads",
            "Looks at the configuration files, by what they gave: changed, unchanged or refused.",
            ["result"],
            registry=registry,
        )
        for result in ("changed", "unchanged", "refused"):
            self.config_loads.labels(result=result)
        self.config_problems = Gauge(
            "mesh_discovery_config_problems",
            "Mistakes in the configuration files as they are now; above 0 an older one is served.",
            registry=registry,
        )
        self.config_load_time = Histogram(
            "mesh_discovery_config_load_seconds",
            "Time to read and check the configuration files.",
            registry=registry,
        )
        self.services = Gauge("pilot_services", "Services known.", registry=registry)
        self.conflicts = Gauge(
            "pilot_conflict_outbound_listener",
            "Listeners of services whose address and port an older service has.",
            registry=registry,
        )
        self.certificate_expiry = Gauge(
            "mesh_discovery_serving_certificate_expiry_timestamp",
            "When the certificate of the secure port expires, in Unix seconds.",
            registry=registry,
        )
        Gauge(
            "pilot_info", "Version of this control plane.", ["version"], registry=registry
        ).labels(version=version).set(1)

    def watch_conflicts(self, count: Callable[[], int]) -> None:
        """Read the number of conflicts at each scrape."""
        self.conflicts.set_function(count)
