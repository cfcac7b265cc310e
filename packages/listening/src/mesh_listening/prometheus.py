"""The counts of ports as Prometheus' instruments. Needs prometheus-client."""

from collections.abc import Iterable

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mesh_listening.acceptors._port import Port

ACCEPTED = "mesh_listener_connections_accepted"
REFUSED = "mesh_listener_connections_refused"
OPEN = "mesh_listener_connections_open"


class PortMetrics(Collector):
    """The instruments of all ports of a process; one collector, so that each name is told once.

    The labels are the listener's name, as the log has it, and each `Reason`, those at 0 too.
    """

    def __init__(self) -> None:
        self._ports: list[Port] = []

    def add(self, *ports: Port) -> None:
        """Tell of these ports from now on."""
        self._ports += ports

    def describe(self) -> Iterable[Metric]:
        """Say the names without samples, so that a registry sees who else has them."""
        return self._families()

    def collect(self) -> Iterable[Metric]:
        """Read every port once."""
        accepted, refused, open_ = families = self._families()
        for port in self._ports:
            counts = port.counts()
            accepted.add_metric([counts.listener], counts.accepted)
            open_.add_metric([counts.listener], counts.open)
            for reason, number in counts.refused.items():
                refused.add_metric([counts.listener, reason.label], number)
        return families

    def _families(self) -> tuple[CounterMetricFamily, CounterMetricFamily, GaugeMetricFamily]:
        return (
            CounterMetricFamily(
                ACCEPTED, "Connections that came, those refused included.", labels=["listener"]
            ),
            CounterMetricFamily(
                REFUSED,
                "Connections turned away, or ended for what they did, by reason.",
                labels=["listener", "reason"],
            ),
            GaugeMetricFamily(OPEN, "Connections open now.", labels=["listener"]),
        )
