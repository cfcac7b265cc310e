"""The tracing of a connection manager: how much, with which tags, and by which tracer."""

from collections.abc import Iterator, Sequence
from typing import assert_never

from envoy.config.core.v3 import http_service_pb2, http_uri_pb2
from envoy.config.trace.v3 import (
    datadog_pb2,
    http_tracer_pb2,
    opentelemetry_pb2,
    skywalking_pb2,
    zipkin_pb2,
)
from envoy.extensions.request_id.uuid.v3 import uuid_pb2
from envoy.extensions.tracers.opentelemetry.resource_detectors.v3 import (
    dynatrace_resource_detector_pb2,
    environment_resource_detector_pb2,
)
from envoy.type.metadata.v3 import metadata_pb2
from envoy.type.tracing.v3 import custom_tag_pb2
from google.protobuf.message import Message

from envoy_config.generate._messages import (
    base_pb2,
    duration,
    grpc_service_pb2,
    http_connection_manager_pb2,
    packed,
    percent_pb2,
    wrappers_pb2,
)
from envoy_config.plan._provider_services import ProviderService
from envoy_config.plan.resolved._telemetry import Tag, TracedBy, Tracing
from istio_config.kinds.mesh_config.providers import (
    Datadog,
    OpenTelemetry,
    SentHeader,
    SkyWalking,
    TraceContext,
    Zipkin,
)
from mesh_configfile import Duration

_Manager = http_connection_manager_pb2.HttpConnectionManager
_CustomTag = custom_tag_pb2.CustomTag
_TIMEOUT = Duration(5)
_SPANS = "/api/v2/spans"


def trace(manager: _Manager, tracing: Tracing | None, *, at_gateway: bool) -> None:
    """Let a manager trace requests; at_gateway: the call to the upstream has a span of its own."""
    if tracing is None:
        return
    message = manager.tracing
    message.client_sampling.CopyFrom(percent_pb2.Percent(value=100))
    message.random_sampling.CopyFrom(percent_pb2.Percent(value=tracing.sampling))
    message.overall_sampling.CopyFrom(percent_pb2.Percent(value=100))
    if tracing.max_path_length:
        message.max_path_tag_length.CopyFrom(
            wrappers_pb2.UInt32Value(value=tracing.max_path_length)
        )
    if at_gateway:
        message.spawn_upstream_span.CopyFrom(wrappers_pb2.BoolValue(value=True))
    message.custom_tags.extend(map(_tag, tracing.tags))
    if tracing.istio_tags:
        message.custom_tags.extend(map(_tag, tracing.istio_tags))
        message.custom_tags.extend(_tags_of_tried_policies())
    if tracing.provider is not None:
        name, config = _provider(tracing.provider, tracing.service_name)
        message.provider.CopyFrom(
            http_tracer_pb2.Tracing.Http(name=name, typed_config=packed(config))
        )
    if not tracing.samples_by_request_id:
        ids = uuid_pb2.UuidRequestIdConfig(
            use_request_id_for_trace_sampling=wrappers_pb2.BoolValue(value=False)
        )
        manager.request_id_extension.typed_config.CopyFrom(packed(ids))


def _tags_of_tried_policies() -> Iterator[custom_tag_pb2.CustomTag]:
    """Make the tags of policies that are only tried out."""
    for action in ("allow", "deny"):
        for tag, key in (("name", "effective_policy_id"), ("result", "engine_result")):
            yield _CustomTag(
                tag=f"istio.authorization.dry_run.{action}_policy.{tag}",
                metadata=_CustomTag.Metadata(
                    kind=metadata_pb2.MetadataKind(request=metadata_pb2.MetadataKind.Request()),
                    metadata_key=metadata_pb2.MetadataKey(
                        key="envoy.filters.http.rbac",
                        path=[
                            metadata_pb2.MetadataKey.PathSegment(
                                key=f"istio_dry_run_{action}_shadow_{key}"
                            )
                        ],
                    ),
                ),
            )


def _tag(tag: Tag) -> custom_tag_pb2.CustomTag:
    match tag.kind:
        case "literal":
            return _CustomTag(tag=tag.name, literal=_CustomTag.Literal(value=tag.value))
        case "environment":
            found = _CustomTag.Environment(name=tag.value, default_value=tag.default)
            return _CustomTag(tag=tag.name, environment=found)
        case "header":
            header = _CustomTag.Header(name=tag.value, default_value=tag.default)
            return _CustomTag(tag=tag.name, request_header=header)
        case _:
            return _CustomTag(tag=tag.name, value=tag.value)


def _provider(provider: TracedBy, service_name: str) -> tuple[str, Message]:
    service = provider.service
    match provider.tracer:
        case Zipkin() as zipkin:
            return "envoy.tracers.zipkin", _zipkin(zipkin, service)
        case Datadog():
            return "envoy.tracers.datadog", datadog_pb2.DatadogConfig(
                collector_cluster=service.cluster,
                service_name=service_name or "envoy",
                collector_hostname=service.authority,
            )
        case SkyWalking() as skywalking:
            config = skywalking_pb2.SkyWalkingConfig(grpc_service=_grpc(service))
            if skywalking.access_token:
                config.client_config.backend_token = skywalking.access_token
            return "envoy.tracers.skywalking", config
        case OpenTelemetry() as otel:
            return "envoy.tracers.opentelemetry", _opentelemetry(otel, service, service_name)
        case _:
            assert_never(provider.tracer)


def _zipkin(zipkin: Zipkin, service: ProviderService) -> zipkin_pb2.ZipkinConfig:
    config = zipkin_pb2.ZipkinConfig(
        trace_id_128bit=not zipkin.enable_64bit_trace_id,
        shared_span_context=wrappers_pb2.BoolValue(value=False),
        collector_endpoint_version=zipkin_pb2.ZipkinConfig.CollectorEndpointVersion.HTTP_JSON,
    )
    path = zipkin.path or _SPANS
    if zipkin.trace_context_option is TraceContext.USE_B3_WITH_W3C_PROPAGATION:
        config.trace_context_option = zipkin_pb2.ZipkinConfig.USE_B3_WITH_W3C_PROPAGATION
    if zipkin.timeout is not None or zipkin.headers:
        config.collector_service.CopyFrom(_http(service, path, zipkin.timeout, zipkin.headers))
        return config
    config.collector_cluster = service.cluster
    config.collector_endpoint = path
    config.collector_hostname = service.authority
    return config


def _opentelemetry(
    otel: OpenTelemetry, service: ProviderService, service_name: str
) -> opentelemetry_pb2.OpenTelemetryConfig:
    message = opentelemetry_pb2.OpenTelemetryConfig(service_name=service_name)
    if otel.http is not None:
        http = otel.http
        message.http_service.CopyFrom(_http(service, http.path, http.timeout, http.headers))
    else:
        message.grpc_service.CopyFrom(_grpc(service))
        if otel.grpc is not None and otel.grpc.timeout is not None:
            message.grpc_service.timeout.CopyFrom(duration(otel.grpc.timeout))
        metadata = otel.grpc.initial_metadata if otel.grpc is not None else ()
        message.grpc_service.initial_metadata.extend(_headers(metadata))
    detectors = otel.resource_detectors
    for name, given, config in (
        (
            "environment",
            detectors is not None and detectors.environment is not None,
            environment_resource_detector_pb2.EnvironmentResourceDetectorConfig(),
        ),
        (
            "dynatrace",
            detectors is not None and detectors.dynatrace is not None,
            dynatrace_resource_detector_pb2.DynatraceResourceDetectorConfig(),
        ),
    ):
        if given:
            message.resource_detectors.add(
                name=f"envoy.tracers.opentelemetry.resource_detectors.{name}",
                typed_config=packed(config),
            )
    return message


def _http(
    service: ProviderService,
    path: str,
    timeout: Duration | None,
    headers: Sequence[SentHeader],
) -> http_service_pb2.HttpService:
    return http_service_pb2.HttpService(
        http_uri=http_uri_pb2.HttpUri(
            uri=f"http://{service.authority}{path}",
            cluster=service.cluster,
            timeout=duration(timeout if timeout is not None else _TIMEOUT),
        ),
        request_headers_to_add=[
            base_pb2.HeaderValueOption(header=each) for each in _headers(headers)
        ],
    )


def _headers(given: Sequence[SentHeader]) -> list[base_pb2.HeaderValue]:
    return [base_pb2.HeaderValue(key=each.name, value=each.value) for each in given if each.value]


def _grpc(service: ProviderService) -> grpc_service_pb2.GrpcService:
    return grpc_service_pb2.GrpcService(
        envoy_grpc=grpc_service_pb2.GrpcService.EnvoyGrpc(
            cluster_name=service.cluster, authority=service.authority
        )
    )
