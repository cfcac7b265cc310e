"""The metrics of proxies: which are produced, and with which tags."""

import re
from collections.abc import Iterator
from enum import StrEnum

import msgspec

from istio_config.kinds.checks import duration_mistake
from istio_config.kinds.fields import SpecFields
from istio_config.kinds.formats import metric_tag_mistake
from istio_config.kinds.telemetry._sides import ProviderRef, WorkloadMode, provider_ref_mistakes
from mesh_configfile import Duration, FieldPath
from mesh_configfile.shapes import Finding


class IstioMetric(StrEnum):
    """Istio's metrics."""

    ALL_METRICS = "ALL_METRICS"
    REQUEST_COUNT = "REQUEST_COUNT"
    REQUEST_DURATION = "REQUEST_DURATION"
    REQUEST_SIZE = "REQUEST_SIZE"
    RESPONSE_SIZE = "RESPONSE_SIZE"
    TCP_OPENED_CONNECTIONS = "TCP_OPENED_CONNECTIONS"
    TCP_CLOSED_CONNECTIONS = "TCP_CLOSED_CONNECTIONS"
    TCP_SENT_BYTES = "TCP_SENT_BYTES"
    TCP_RECEIVED_BYTES = "TCP_RECEIVED_BYTES"
    GRPC_REQUEST_MESSAGES = "GRPC_REQUEST_MESSAGES"
    GRPC_RESPONSE_MESSAGES = "GRPC_RESPONSE_MESSAGES"


class MetricSelector(SpecFields, frozen=True):
    """The metrics that an override is about."""

    metric: IstioMetric | None = None
    custom_metric: str | None = None
    mode: WorkloadMode = WorkloadMode.CLIENT_AND_SERVER


class TagOperation(StrEnum):
    """The change of a tag."""

    UPSERT = "UPSERT"
    REMOVE = "REMOVE"


class TagOverride(SpecFields, frozen=True):
    """Another value of a tag of metrics."""

    operation: TagOperation = TagOperation.UPSERT
    value: str = ""


class MetricsOverride(SpecFields, frozen=True):
    """A change of some metrics."""

    match: MetricSelector | None = None
    disabled: bool | None = None
    tag_overrides: dict[str, TagOverride] = msgspec.field(default_factory=dict)


class Metrics(SpecFields, frozen=True):
    """Which of Istio's metrics are produced, for whom, and with which tags."""

    providers: tuple[ProviderRef, ...] = ()
    overrides: tuple[MetricsOverride, ...] = ()
    reporting_interval: Duration | None = None


METRIC_NAMES = {
    IstioMetric.REQUEST_COUNT: "requests_total",
    IstioMetric.REQUEST_DURATION: "request_duration_milliseconds",
    IstioMetric.REQUEST_SIZE: "request_bytes",
    IstioMetric.RESPONSE_SIZE: "response_bytes",
    IstioMetric.TCP_OPENED_CONNECTIONS: "tcp_connections_opened_total",
    IstioMetric.TCP_CLOSED_CONNECTIONS: "tcp_connections_closed_total",
    IstioMetric.TCP_SENT_BYTES: "tcp_sent_bytes_total",
    IstioMetric.TCP_RECEIVED_BYTES: "tcp_received_bytes_total",
}
"""The metrics that proxies make, with their names behind `istio_`."""
_ALL_NAMES = ", ".join(f"istio_{each}" for each in METRIC_NAMES.values())
PROXY_METRICS = tuple(METRIC_NAMES)
TAG_NAME = re.compile("[a-zA-Z_][a-zA-Z0-9_]{0,127}")
"""The names that Prometheus takes for tags; no longer than it is of use."""


def selected_metrics(match: MetricSelector | None) -> tuple[IstioMetric, ...]:
    """Return the metrics that an override is about, of those that are produced."""
    if match is None:
        return PROXY_METRICS
    if match.custom_metric is not None:
        wanted = match.custom_metric.removeprefix("istio_")
        return tuple(each for each, name in METRIC_NAMES.items() if name == wanted)
    if match.metric is None or match.metric is IstioMetric.ALL_METRICS:
        return PROXY_METRICS
    return (match.metric,) if match.metric in METRIC_NAMES else ()


def metrics_mistakes(metrics: Metrics, path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with an entry; path: its own."""
    yield from provider_ref_mistakes(metrics.providers, path)
    interval = metrics.reporting_interval
    if interval is not None and (wrong := duration_mistake(interval)) is not None:
        yield (*path, "reportingInterval"), wrong
    for index, override in enumerate(metrics.overrides):
        for inner, message in _override_mistakes(override):
            yield (*path, "overrides", index, *inner), message


def _override_mistakes(override: MetricsOverride) -> Iterator[Finding]:
    match = override.match
    if match is not None and match.custom_metric is not None:
        if not match.custom_metric:
            yield ("match", "customMetric"), "is empty: name a metric"
        if match.metric is not None:
            yield ("match",), "has metric and customMetric: keep one"
    for name, tag in override.tag_overrides.items():
        path: FieldPath = ("tagOverrides", name)
        if not name:
            yield path, "the name of a tag is empty"
        if tag.operation is TagOperation.UPSERT and not tag.value:
            yield (*path, "value"), "is empty, which UPSERT can't set; use REMOVE for no tag"
        elif tag.operation is TagOperation.REMOVE and tag.value:
            yield (*path, "value"), "is given with REMOVE, which needs none"


def metrics_warnings(metrics: Metrics, path: FieldPath) -> Iterator[Finding]:
    """Yield what proxies don't do of an entry; path: its own."""
    if metrics.reporting_interval is not None:
        yield (
            (*path, "reportingInterval"),
            "has no effect: bytes are counted when their connection ends",
        )
    for index, override in enumerate(metrics.overrides):
        for inner, message in _override_warnings(override):
            yield (*path, "overrides", index, *inner), message


def _override_warnings(override: MetricsOverride) -> Iterator[Finding]:
    match = override.match
    if match is not None and not selected_metrics(match):
        if match.custom_metric is not None:
            field, value = "customMetric", match.custom_metric
        else:
            field, value = "metric", str(match.metric)
        yield (
            ("match", field),
            f"has no effect: proxies make no {value}; they make {_ALL_NAMES}",
        )
        return
    for name, tag in override.tag_overrides.items():
        if not TAG_NAME.fullmatch(name):
            yield (
                ("tagOverrides", name),
                "has no effect: a tag has a name of letters, digits and _, of 128 at most",
            )
        elif tag.operation is TagOperation.UPSERT and tag.value:
            wrong = metric_tag_mistake(tag.value)
            if wrong is not None:
                yield ("tagOverrides", name, "value"), f"has no effect: {wrong}"
