"""The fields of a Telemetry.

Source: Istio's API, telemetry/v1.
"""

from enum import StrEnum

import msgspec

from istio_config.kinds.fields import SpecFields, Text
from istio_config.kinds.selection import Selection, TargetRef, WorkloadSelector, selection_of
from mesh_configfile import Duration


class WorkloadMode(StrEnum):
    """The part of a workload in what is told of."""

    CLIENT_AND_SERVER = "CLIENT_AND_SERVER"
    CLIENT = "CLIENT"
    """It calls, or is a gateway."""
    SERVER = "SERVER"
    """It is called."""


class ProviderRef(SpecFields, frozen=True):
    """One of the mesh config's `extensionProviders`, by its name."""

    name: str = ""


class ModeMatch(SpecFields, frozen=True):
    """The traffic that an entry is about."""

    mode: WorkloadMode = WorkloadMode.CLIENT_AND_SERVER


class Literal(SpecFields, frozen=True):
    """A tag with a value of its own."""

    value: str = ""


class Environment(SpecFields, frozen=True):
    """A tag with the value of a variable of the proxy's environment."""

    name: str = ""
    default_value: str = ""


class RequestHeader(SpecFields, frozen=True):
    """A tag with the value of a header of the request."""

    name: str = ""
    default_value: str = ""


class Formatter(SpecFields, frozen=True):
    """A tag with a value as lines of logs have it."""

    value: str = ""


class CustomTag(SpecFields, frozen=True):
    """A further tag of spans: one of its fields is given."""

    literal: Literal | None = None
    environment: Environment | None = None
    header: RequestHeader | None = None
    formatter: Formatter | None = None


class Tracing(SpecFields, frozen=True):
    """Which requests are traced, and where the spans go."""

    match: ModeMatch | None = None
    providers: tuple[ProviderRef, ...] = ()
    random_sampling_percentage: float | None = None
    disable_span_reporting: bool | None = None
    custom_tags: dict[str, CustomTag] = msgspec.field(default_factory=dict)
    use_request_id_for_trace_sampling: bool | None = None
    enable_istio_tags: bool | None = None


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
    """Metrics of Istio's own filters."""

    providers: tuple[ProviderRef, ...] = ()
    overrides: tuple[MetricsOverride, ...] = ()
    reporting_interval: Duration | None = None


class LogFilter(SpecFields, frozen=True):
    """The requests that are logged."""

    expression: Text
    """In CEL (`_expressions`)."""


class AccessLogging(SpecFields, frozen=True):
    """Which requests are logged, and where."""

    match: ModeMatch | None = None
    providers: tuple[ProviderRef, ...] = ()
    disabled: bool | None = None
    filter: LogFilter | None = None


class TelemetrySpec(SpecFields, frozen=True):
    """Logs, traces and metrics of the proxies of some workloads."""

    selector: WorkloadSelector | None = None
    target_ref: TargetRef | None = None
    """The older way to give one of `target_refs`."""
    target_refs: tuple[TargetRef, ...] = ()
    tracing: tuple[Tracing, ...] = ()
    metrics: tuple[Metrics, ...] = ()
    access_logging: tuple[AccessLogging, ...] = ()

    @property
    def selection(self) -> Selection:
        """The workloads that it is for."""
        refs = self.target_refs if self.target_ref is None else (self.target_ref,)
        return selection_of(self.selector, refs)
