"""The control plane's own metrics; the xDS server and the CA have theirs.

Names are Istio's where Istio has the metric.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector


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
        self.rejected = Gauge(
            "pilot_total_rejected_configs",
            "Files that were found to be wrong since the start, each time that they changed.",
            registry=registry,
        )
        self.validated = Gauge(
            "galley_validation_passed",
            "Objects in files that were read and are right, since the start.",
            registry=registry,
        )
        self.not_valid = Gauge(
            "galley_validation_failed",
            "Files that were read and are wrong, since the start.",
            registry=registry,
        )
        self._of_mesh = {
            name: Gauge(metric, meaning, registry=registry)
            for name, metric, meaning in (
                ("virtual_services", "pilot_virt_services", "VirtualServices known."),
                (
                    "repeated_hosts",
                    "pilot_vservice_dup_domain",
                    "Hosts that several VirtualServices of sidecars name.",
                ),
                (
                    "repeated_subsets",
                    "pilot_destrule_subsets",
                    "Subsets that several DestinationRules of a host have.",
                ),
                (
                    "without_endpoints",
                    "pilot_eds_no_instances",
                    "Ports of services that list their endpoints and have none for the port.",
                ),
                (
                    "looked_up_without_endpoints",
                    "pilot_dns_cluster_without_endpoints",
                    "Ports of services found by DNS that name nothing to look up.",
                ),
                ("not_ready", "pilot_endpoint_not_ready", "Endpoints that are not healthy."),
            )
        }
        self._without_service = Gauge(
            "pilot_no_ip",
            "Sidecars connected that are no endpoint of any service.",
            registry=registry,
        )
        self._conflicts_of_tcp = Gauge(
            "pilot_conflict_outbound_listener_tcp_over_current_tcp",
            "The same as pilot_conflict_outbound_listener: HTTP services share their listeners.",
            registry=registry,
        )
        started = time.monotonic()
        Gauge("istiod_uptime_seconds", "Time since the start.", registry=registry).set_function(
            lambda: time.monotonic() - started
        )
        Gauge(
            "pilot_info", "Version of this control plane.", ["version"], registry=registry
        ).labels(version=version).set(1)
        Gauge(
            "istio_build",
            "Version of this control plane, as Istio's dashboards ask for it.",
            ["component", "tag"],
            registry=registry,
        ).labels(component="pilot", tag=version).set(1)
        # CPU, memory and open files, which the dashboards show of the process itself.
        ProcessCollector(registry=registry)

    def watch_conflicts(self, count: Callable[[], int], left_out: Callable[[], int]) -> None:
        """Read the number of conflicts, and of what routers leave out, at each scrape."""
        self.conflicts.set_function(count)
        self._conflicts_of_tcp.set_function(count)
        self.left_out.set_function(left_out)

    def watch_mesh(self, figures: Callable[[], NamedTuple]) -> None:
        """Read the figures of the mesh at each scrape; their fields are named as here."""

        def read(name: str) -> float:
            value: float = getattr(figures(), name)
            return value

        for name, gauge in self._of_mesh.items():
            gauge.set_function(partial(read, name))

    def watch_proxies(self, without_service: Callable[[], int]) -> None:
        """Read the number of sidecars that are no endpoint at each scrape."""
        self._without_service.set_function(without_service)
