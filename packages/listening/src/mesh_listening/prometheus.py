"""The counts of ports as Prometheus metrics. Needs prometheus-client."""

from collections.abc import Iterable

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mesh_listening.acceptors._port import Port
from mesh_listening.limits._open_files import out_of_files

ACCEPTED = "mesh_listener_connections_accepted"
REFUSED = "mesh_listener_connections_refused"
OPEN = "mesh_listener_connections_open"
OUT_OF_FILES = "mesh_out_of_file_descriptors"


class PortMetrics(Collector):
    """The metrics of all ports of a process; one collector, so that each name is exported once.

    The labels are the listener's name, as in the log, and each `Reason`, also those at 0.
    """

    def __init__(self) -> None:
        self._ports: list[Port] = []

    def add(self, *ports: Port) -> None:
        """Export the counts of these ports from now on."""
        self._ports += ports

    def describe(self) -> Iterable[Metric]:
        """Return the metrics without samples, by which a registry finds duplicate names."""
        return self._empty_metrics()

    def collect(self) -> Iterable[Metric]:
        """Return the metrics with the counts of this moment."""
        accepted, refused, open_, out = metrics = self._empty_metrics()
        out.add_metric([], float(out_of_files() is not None))
        for port in self._ports:
            counts = port.counts()
            accepted.add_metric([counts.listener], counts.accepted)
            open_.add_metric([counts.listener], counts.open)
            for reason, number in counts.refused.items():
                refused.add_metric([counts.listener, reason.label], number)
        return metrics

    def _empty_metrics(
        self,
    ) -> tuple[CounterMetricFamily, CounterMetricFamily, GaugeMetricFamily, GaugeMetricFamily]:
        return (
            CounterMetricFamily(
                ACCEPTED, "Connections accepted, the refused ones included.", labels=["listener"]
            ),
            CounterMetricFamily(
                REFUSED,
                "Connections refused, or ended for what they did, by reason.",
                labels=["listener", "reason"],
            ),
            GaugeMetricFamily(OPEN, "Connections open now.", labels=["listener"]),
            GaugeMetricFamily(
                OUT_OF_FILES, "1 while the process can open no file; else 0.", labels=()
            ),
        )
