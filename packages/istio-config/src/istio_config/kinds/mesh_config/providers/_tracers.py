"""Services that take the spans of traces."""

from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec

from istio_config.kinds.fields import PortNumber, SpecFields, Text
from mesh_configfile import Duration

_Length: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]


class SentHeader(SpecFields, frozen=True):
    """A header that proxies send to a collector."""

    name: Text
    value: str | None = None
    env_name: str | None = None
    """The variable of the control plane's environment that has the value, which is not read."""


class TraceContext(StrEnum):
    """The headers by which a trace goes on from proxy to proxy."""

    USE_B3 = "USE_B3"
    USE_B3_WITH_W3C_PROPAGATION = "USE_B3_WITH_W3C_PROPAGATION"


class Zipkin(SpecFields, frozen=True):
    """A collector that speaks Zipkin's HTTP API."""

    service: Text
    port: PortNumber
    max_tag_length: _Length = 0
    """The most characters of a path in a span; 0: Envoy's own bound."""
    enable_64bit_trace_id: bool = msgspec.field(name="enable64bitTraceId", default=False)
    path: str = ""
    """Where spans are posted; empty: /api/v2/spans."""
    trace_context_option: TraceContext = TraceContext.USE_B3
    timeout: Duration | None = None
    headers: tuple[SentHeader, ...] = ()


class Datadog(SpecFields, frozen=True):
    """An agent of Datadog."""

    service: Text
    port: PortNumber
    max_tag_length: _Length = 0


class SkyWalking(SpecFields, frozen=True):
    """A receiver of SkyWalking."""

    service: Text
    port: PortNumber
    access_token: str = ""


class OtlpHttp(SpecFields, frozen=True):
    """How spans are posted by OTLP over HTTP, if not by gRPC."""

    path: str = ""
    timeout: Duration | None = None
    headers: tuple[SentHeader, ...] = ()


class OtlpGrpc(SpecFields, frozen=True):
    """How spans are sent by OTLP over gRPC."""

    timeout: Duration | None = None
    initial_metadata: tuple[SentHeader, ...] = ()


class Given(SpecFields, frozen=True):
    """Something that is there or is not, without settings."""


class ResourceDetectors(SpecFields, frozen=True):
    """Where the attributes of a proxy as a resource of OpenTelemetry come from."""

    environment: Given | None = None
    dynatrace: Given | None = None


class DynatraceApi(SpecFields, frozen=True):
    """The service that tells how much is to be sampled."""

    service: Text
    port: PortNumber
    http: OtlpHttp | None = None


class DynatraceSampler(SpecFields, frozen=True):
    """Dynatrace's way to choose the requests that are traced."""

    tenant: Text
    cluster_id: int
    root_spans_per_minute: _Length = 0
    http_service: DynatraceApi | None = None


class OpenTelemetry(SpecFields, frozen=True):
    """A collector that speaks OTLP, by gRPC unless `http` is given."""

    service: Text
    port: PortNumber
    max_tag_length: _Length = 0
    http: OtlpHttp | None = None
    grpc: OtlpGrpc | None = None
    resource_detectors: ResourceDetectors | None = None
    dynatrace_sampler: DynatraceSampler | None = None


class Lightstep(SpecFields, frozen=True):
    """A collector of Lightstep; Envoy has no such tracer any more."""

    service: Text
    port: PortNumber
    access_token: str = ""
    max_tag_length: _Length = 0


class OpenCensus(SpecFields, frozen=True):
    """A collector of OpenCensus; Envoy has no such tracer any more."""

    service: Text
    port: PortNumber
    context: tuple[str, ...] = ()
    max_tag_length: _Length = 0
