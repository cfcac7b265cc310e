"""Services that take the spans of traces.

Source: Istio's API, mesh/v1alpha1.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, TypeAlias, assert_never

import msgspec

from istio_config.kinds.checks import duration_mistakes
from istio_config.kinds.fields import PortNumber, SpecFields, Text
from istio_config.kinds.mesh_config.providers._headers import SentHeader, sent_header_mistakes
from mesh_configfile import Duration, FieldPath
from mesh_configfile.shapes import Finding

_Length: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]


class TraceContext(StrEnum):
    """The headers that propagate a trace from proxy to proxy."""

    USE_B3 = "USE_B3"
    USE_B3_WITH_W3C_PROPAGATION = "USE_B3_WITH_W3C_PROPAGATION"


class Zipkin(SpecFields, frozen=True):
    """A collector that speaks Zipkin's HTTP API."""

    service: Text
    port: PortNumber
    max_tag_length: _Length = 0
    """The most characters of a path in a span; 0 means Envoy's default."""
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
    """A message without fields: it is there or not."""


class ResourceDetectors(SpecFields, frozen=True):
    """Where the attributes of a proxy as a resource of OpenTelemetry come from."""

    environment: Given | None = None
    dynatrace: Given | None = None


class DynatraceApi(SpecFields, frozen=True):
    """The service that says how much is sampled."""

    service: Text
    port: PortNumber
    http: OtlpHttp | None = None


class DynatraceSampler(SpecFields, frozen=True):
    """Dynatrace's sampler."""

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


Tracer: TypeAlias = Zipkin | Datadog | SkyWalking | OpenTelemetry


def tracer_mistakes(tracer: Tracer) -> Iterator[Finding]:
    """Yield what is wrong with a tracer; paths start below it."""
    match tracer:
        case Zipkin():
            if tracer.path and not tracer.path.startswith("/"):
                yield ("path",), f'"{tracer.path}" is not a path; it must begin with "/"'
            yield from sent_header_mistakes(tracer.headers, ("headers",))
        case OpenTelemetry(http=http, grpc=grpc):
            if http is not None:
                if not http.path.startswith("/"):
                    yield (
                        ("http", "path"),
                        'expected a path of the collector, as "/v1/traces"',
                    )
                if http.timeout is not None:
                    yield from duration_mistakes(("http", "timeout"), http.timeout)
                yield from sent_header_mistakes(http.headers, ("http", "headers"))
            if grpc is not None:
                if grpc.timeout is not None:
                    yield from duration_mistakes(("grpc", "timeout"), grpc.timeout)
                yield from sent_header_mistakes(grpc.initial_metadata, ("grpc", "initialMetadata"))
        case Datadog() | SkyWalking():
            pass
        case _:
            assert_never(tracer)


def variables_in_headers(tracer: Tracer) -> Iterator[FieldPath]:
    """Yield the paths of headers whose value is that of a variable."""
    headers: list[tuple[FieldPath, Sequence[SentHeader]]] = []
    if isinstance(tracer, Zipkin):
        headers.append((("headers",), tracer.headers))
    if isinstance(tracer, OpenTelemetry) and tracer.http is not None:
        headers.append((("http", "headers"), tracer.http.headers))
    if isinstance(tracer, OpenTelemetry) and tracer.grpc is not None:
        headers.append((("grpc", "initialMetadata"), tracer.grpc.initial_metadata))
    for path, listed in headers:
        for index, each in enumerate(listed):
            if each.env_name is not None:
                yield (*path, index)
