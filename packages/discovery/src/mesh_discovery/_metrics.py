"""The control plane's own metrics; the xDS server and the CA have theirs.

Names are Istio's where Istio has the metric.
"""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
    """Instruments on one registry."""

    def __init__(self, registry: CollectorRegistry, *, version: str) -> None:
        self.config_loads = Counter(
            "mesh_discovery_config_loads",
            "Looks at the configuration files, by what they gave: changed or unchanged; with files "
            "that are wrong, partly (something changed all the same) or refused.",
            ["result"],
            registry=registry,
        )
        for result in ("changed", "unchanged", "partly", "refused"):
            self.config_loads.labels(result=result)
        self.config_problems = Gauge(
            "mesh_discovery_config_problems",
            "Mistakes in the configuration files as they are now; above 0, files are not served as "
            "they are.",
            registry=registry,
        )
        self.config_unsupported = Gauge(
            "mesh_discovery_config_unsupported",
            "Objects and fields that are accepted and have no effect.",
            registry=registry,
        )
        self.config_unreachable = Gauge(
            "mesh_discovery_config_unreachable",
            "Services, hosts and ports that are configured and can't be reached.",
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
        self.left_out = Gauge(
            "mesh_discovery_gateway_left_out",
            "Servers and TLS routes of Gateways that routers leave out: others have their place.",
            registry=registry,
        )
        self.key_sets_missing = Gauge(
            "mesh_discovery_key_sets_missing",
            "Key sets of issuers of tokens that could not be fetched so far: their tokens are "
            "refused.",
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

    def watch_conflicts(self, count: Callable[[], int], left_out: Callable[[], int]) -> None:
        """Read the number of conflicts, and of what routers leave out, at each scrape."""
        self.conflicts.set_function(count)
        self.left_out.set_function(left_out)
