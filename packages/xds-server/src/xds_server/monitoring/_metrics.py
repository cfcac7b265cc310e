"""Every instrument of the server, under Istio's names where Istio has one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Gauge, Histogram
from prometheus_client.core import UnknownMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

_QUICK_S = (0.01, 0.1, 0.5, 1.0, 3.0, 5.0, 10.0, 20.0, 30.0)
_CONVERGENCE_S = (0.1, 0.5, 1.0, 3.0, 5.0, 10.0, 20.0, 30.0)
_SIZES = (1e3, 1e4, 1e5, 1e6, 4e6, 1e7, 4e7)


class Count(Collector):
    """A count whose name has no `_total` at its end, which the library's own counters insist on.

    Dashboards written for Istio ask for the names without.
    """

    def __init__(self, name: str, meaning: str, label: str | None = None) -> None:
        self._name = name
        self._meaning = meaning
        self._label = label
        self._counts: defaultdict[str, float] = defaultdict(float)

    def inc(self, value: str = "", amount: float = 1) -> None:
        self._counts[value] += amount

    def describe(self) -> Iterable[Metric]:
        return [UnknownMetricFamily(self._name, self._meaning)]

    def collect(self) -> Iterable[Metric]:
        labels = [self._label] if self._label else []
        family = UnknownMetricFamily(self._name, self._meaning, labels=labels)
        if not self._label:
            family.add_metric([], self._counts[""])
        for value, count in self._counts.items():
            if self._label:
                family.add_metric([value], count)
        return [family]


class Metrics:
    """The instruments of one server, on one registry."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        queue_length: Callable[[], int],
        pending_writes: Callable[[], int],
        kept_bytes: Callable[[], int],
    ) -> None:
        self.clients = Gauge(
            "pilot_xds",
            "Streams connected, by the client's kind and version.",
            ["version"],
            registry=registry,
        )
        self.pushes = Count("pilot_xds_pushes", "Responses sent, by type.", "type")
        self.push_time = Histogram(
            "pilot_xds_push_time",
            "Seconds from the start of generating a type for a client until it is handed over.",
            ["type"],
            buckets=_QUICK_S,
            registry=registry,
        )
        self.send_time = Histogram(
            "pilot_xds_send_time",
            "Seconds a response took to hand over to the connection.",
            buckets=_QUICK_S,
            registry=registry,
        )
        self.size = Histogram(
            "pilot_xds_config_size_bytes",
            "Bytes of a response, by type.",
            ["type"],
            buckets=_SIZES,
            registry=registry,
        )
        self.triggers = Count("pilot_push_triggers", "Pushes, by the reason for them.", "type")
        self.debounce_time = Histogram(
            "pilot_debounce_time",
            "Seconds from the first change of a push until the push began.",
            buckets=_QUICK_S,
            registry=registry,
        )
        self.build_time = Histogram(
            "pilot_pushcontext_init_seconds",
            "Seconds a build of the state to push took.",
            buckets=_QUICK_S,
            registry=registry,
        )
        self.queue_time = Histogram(
            "pilot_proxy_queue_time",
            "Seconds from a change until its push to a client began.",
            buckets=_CONVERGENCE_S,
            registry=registry,
        )
        self.convergence_time = Histogram(
            "pilot_proxy_convergence_time",
            "Seconds from a change until all its responses were sent to a client.",
            buckets=_CONVERGENCE_S,
            registry=registry,
        )
        self.inbound_updates = Count("pilot_inbound_updates", "Changes notified, by reach.", "type")
        self.committed_updates = Count(
            "xds_server_committed_updates",
            "Changes notified whose push was built, or failed to be.",
        )
        self.rejects = Count("pilot_total_xds_rejects", "Responses refused by clients.", "type")
        self.rejects_of = {
            short: Count(f"pilot_xds_{short}_reject", f"{short.upper()} responses refused.")
            for short in ("cds", "eds", "lds", "rds")
        }
        self.expired_nonces = Count(
            "pilot_xds_expired_nonce", "Requests with a nonce that is not the last sent.", "type"
        )
        self.internal_errors = Count(
            "pilot_total_xds_internal_errors", "Errors raised while making what to send."
        )
        queue = Gauge(
            "xds_server_push_queue_length", "Clients waiting for a push.", registry=registry
        )
        queue.set_function(queue_length)
        waiting = Gauge(
            "xds_server_pending_write_bytes",
            "Bytes of responses that clients have not taken yet.",
            registry=registry,
        )
        waiting.set_function(pending_writes)
        kept = Gauge(
            "xds_server_kept_bytes",
            "Estimated bytes of the names, versions and nodes of clients.",
            registry=registry,
        )
        kept.set_function(kept_bytes)
        self.over_limit = Count(
            "xds_server_streams_over_kept_bytes",
            "Streams ended for the memory they take, by the bound: of a stream, an identity, all.",
            "bound",
        )
        self.send_timeouts = Count(
            "pilot_xds_write_timeout", "Streams closed because the client did not read."
        )
        self.too_large = Count(
            "xds_server_too_large_responses", "Responses over the message limit, by type.", "type"
        )
        self.unserved = Count(
            "xds_server_unserved_requests",
            "Requests for types that are not served, but for those after an answer; by type URL.",
            "type",
        )
        self.bad_requests = Count(
            "xds_server_refused_requests",
            "Requests that ended their stream: over a limit, malformed, or none; by status code.",
            "code",
        )
        for count in (
            self.bad_requests,
            self.over_limit,
            self.unserved,
            self.pushes,
            self.triggers,
            self.inbound_updates,
            self.committed_updates,
            self.rejects,
            *self.rejects_of.values(),
            self.expired_nonces,
            self.internal_errors,
            self.send_timeouts,
            self.too_large,
        ):
            registry.register(count)

    def on_response(self, short: str, *, size: int, push_s: float, send_s: float) -> None:
        """Count a response of a type that went out."""
        self.push_time.labels(short).observe(push_s)
        self.send_time.observe(send_s)
        self.size.labels(short).observe(size)
        self.pushes.inc(short)

    def on_nack(self, short: str) -> None:
        self.rejects.inc(short)
        if short in self.rejects_of:
            self.rejects_of[short].inc()
