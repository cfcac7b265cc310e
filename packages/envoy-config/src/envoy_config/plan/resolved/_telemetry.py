"""The logs, traces and metrics of a proxy, resolved: equal ones make the same listeners."""

from typing import NamedTuple, TypeAlias

import msgspec

from envoy_config.plan._provider_services import ProviderService
from istio_config.kinds.mesh_config.providers import Tracer
from istio_config.kinds.telemetry import IstioMetric


# No named tuples: these are equal whatever their class, and a cache of loggers would give the text
# of one mesh config for the JSON of the next.
class TextLine(msgspec.Struct, frozen=True):
    """A line of text; empty: of Istio's default format."""

    text: str = ""


class JsonLine(msgspec.Struct, frozen=True):
    """A line of JSON, by the JSON text of its fields; empty: of Istio's default fields."""

    fields: str = ""


class FileTarget(NamedTuple):
    """A file of the proxy's own."""

    path: str
    line: TextLine | JsonLine = TextLine()
    omits_empty: bool = False


class ServiceTarget(NamedTuple):
    """A service that takes logs by Envoy's API: of requests, or of connections."""

    cluster: str
    authority: str = ""
    of_requests: bool = True
    log_name: str = ""
    filter_state: tuple[str, ...] = ()
    request_headers: tuple[str, ...] = ()
    response_headers: tuple[str, ...] = ()
    response_trailers: tuple[str, ...] = ()


class OtelTarget(NamedTuple):
    """A service that takes logs by OpenTelemetry's API."""

    cluster: str
    authority: str = ""
    log_name: str = ""
    text: str = ""
    """Of the body; empty: of Istio's default format."""
    labels: str = ""
    """The JSON text of the attributes."""


Target: TypeAlias = FileTarget | ServiceTarget | OtelTarget


class AccessLog(NamedTuple):
    """An access log."""

    target: Target
    expression: str = ""
    """In CEL, of what is logged; empty: all."""


class Tag(NamedTuple):
    """A further tag of spans."""

    name: str
    kind: str
    """`literal`, `environment`, `header` or `formatter`."""
    value: str
    """The value itself, or the name of the variable or header that has it."""
    default: str = ""


class TracedBy(NamedTuple):
    """A provider of traces, with its service."""

    tracer: Tracer
    service: ProviderService


class Tracing(NamedTuple):
    """How requests are traced."""

    provider: TracedBy | None = None
    """None: the tracer of the proxy's bootstrap."""
    sampling: float = 1.0
    """The percentage of requests of which nothing was decided before."""
    tags: tuple[Tag, ...] = ()
    istio_tags: tuple[Tag, ...] = ()
    """About the proxy's own workload; if there are some, policies that are only tried out have tags
    of their own, too."""
    max_path_length: int = 0
    samples_by_request_id: bool = True
    service_name: str = ""
    """Of the proxy's workload, for tracers that have to be given it."""


class Metric(NamedTuple):
    """One of Istio's metrics that a proxy makes."""

    kind: IstioMetric
    changed_tags: tuple[tuple[str, str], ...] = ()
    """The tags that are not as usual, by name, with their formats; an empty one: it is left out."""


class SideTelemetry(NamedTuple):
    """The logs, traces and metrics of what a proxy's workload calls, or of its callers."""

    of_requests: tuple[AccessLog, ...] = ()
    of_connections: tuple[AccessLog, ...] = ()
    tracing: Tracing | None = None
    metrics: tuple[Metric, ...] = ()
    bounds_metrics: bool = False
    """Whether its Envoy can be told how many series there may be."""


class Telemetry(NamedTuple):
    """All logs, traces and metrics of a proxy."""

    client: SideTelemetry = SideTelemetry()
    """Of calls by its workload; of everything, at a gateway."""
    server: SideTelemetry = SideTelemetry()

    def without_metrics_of_calls(self) -> "Telemetry":
        """Return all but the metrics of what the workload calls."""
        return self._replace(client=self.client._replace(metrics=()))
