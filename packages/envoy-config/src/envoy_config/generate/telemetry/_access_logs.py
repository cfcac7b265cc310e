"""Access loggers of connection managers, of TCP proxies, and of listeners themselves."""

import json
from functools import lru_cache
from typing import assert_never

from envoy.data.accesslog.v3 import accesslog_pb2 as log_data_pb2
from envoy.extensions.access_loggers.filters.cel.v3 import cel_pb2
from envoy.extensions.access_loggers.grpc.v3 import als_pb2
from envoy.extensions.access_loggers.open_telemetry.v3 import logs_service_pb2
from google.protobuf.message import Message
from opentelemetry.proto.common.v1 import common_pb2 as otel_pb2

from envoy_config.generate._messages import (
    accesslog_pb2,
    file_pb2,
    grpc_service_pb2,
    packed,
    stream_pb2,
)
from envoy_config.generate._messages import config_source_pb2 as source_pb2
from envoy_config.generate.telemetry._lines import DEFAULT_TEXT, line_format
from envoy_config.generate.telemetry._metrics import (
    connection_metrics,
    counts_opened,
    of_type,
    request_metrics,
)
from envoy_config.plan._proxy_settings import ProxySettings
from envoy_config.plan.resolved._telemetry import (
    AccessLog,
    FileTarget,
    OtelTarget,
    ServiceTarget,
    Target,
)
from envoy_config.plan.telemetry._telemetry import side_of
from istio_config.kinds.fields import Unchecked
from istio_config.kinds.mesh_config import MeshConfigSpec

_MOST_LOGGERS = 256


def request_logs(
    mesh: MeshConfigSpec, proxy: ProxySettings, *, inbound: bool
) -> list[accesslog_pb2.AccessLog]:
    """Return the loggers of requests; inbound: of those to the proxy's own workload."""
    side = side_of(proxy, mesh, inbound=inbound)
    logs = [_logger(each) for each in side.of_requests]
    return [*logs, *request_metrics(side, inbound=inbound)]


def connection_logs(
    mesh: MeshConfigSpec, proxy: ProxySettings, *, inbound: bool
) -> list[accesslog_pb2.AccessLog]:
    """Return the loggers of connections that are not looked into."""
    side = side_of(proxy, mesh, inbound=inbound)
    # Such as count connections have Envoy log them when they are opened, too.
    at_end = counts_opened(side.metrics, inbound=inbound)
    logs = [_logger(each, at_end=at_end) for each in side.of_connections]
    return [*logs, *connection_metrics(side, inbound=inbound)]


def refused_connection_logs(
    mesh: MeshConfigSpec, proxy: ProxySettings, *, inbound: bool
) -> list[accesslog_pb2.AccessLog]:
    """Return the loggers of a listener itself, for connections that no filter chain takes."""
    if mesh.disable_envoy_listener_log:
        return []
    return [
        _logger(each, refused=True) for each in side_of(proxy, mesh, inbound=inbound).of_connections
    ]


@lru_cache(maxsize=_MOST_LOGGERS)
def _logger(
    log: AccessLog, *, refused: bool = False, at_end: bool = False
) -> accesslog_pb2.AccessLog:
    name, config = _extension(log.target)
    access_log = accesslog_pb2.AccessLog(name=name, typed_config=packed(config))
    filters = []
    if refused:
        no_chain = accesslog_pb2.AccessLogFilter()
        no_chain.response_flag_filter.flags.append("NR")
        filters.append(no_chain)
    if at_end:
        filters.append(of_type(log_data_pb2.AccessLogType.TcpConnectionEnd))
    if log.expression:
        filters.append(_expression(log.expression))
    if len(filters) == 1:
        access_log.filter.CopyFrom(filters[0])
    elif filters:
        access_log.filter.and_filter.filters.extend(filters)
    return access_log


def _expression(text: str) -> accesslog_pb2.AccessLogFilter:
    return accesslog_pb2.AccessLogFilter(
        extension_filter=accesslog_pb2.ExtensionFilter(
            name="envoy.access_loggers.extension_filters.cel",
            typed_config=packed(cel_pb2.ExpressionFilter(expression=text)),
        )
    )


def _extension(target: Target) -> tuple[str, Message]:
    match target:
        case FileTarget():
            return _file(target)
        case ServiceTarget():
            return _service(target)
        case OtelTarget():
            return _otel(target)
        case _:
            assert_never(target)


def _file(target: FileTarget) -> tuple[str, Message]:
    # Opened as a file, the standard streams fail when they are sockets, as a supervisor's may be.
    line = line_format(target.line, omits_empty=target.omits_empty)
    match target.path:
        case "/dev/stdout":
            return "envoy.access_loggers.stdout", stream_pb2.StdoutAccessLog(log_format=line)
        case "/dev/stderr":
            return "envoy.access_loggers.stderr", stream_pb2.StderrAccessLog(log_format=line)
        case path:
            return "envoy.access_loggers.file", file_pb2.FileAccessLog(path=path, log_format=line)


def _service(target: ServiceTarget) -> tuple[str, Message]:
    kind = "http" if target.of_requests else "tcp"
    common = als_pb2.CommonGrpcAccessLogConfig(
        log_name=target.log_name or f"{kind}_envoy_accesslog",
        grpc_service=_grpc(target.cluster, target.authority),
        transport_api_version=source_pb2.ApiVersion.V3,
        filter_state_objects_to_log=target.filter_state,
    )
    if not target.of_requests:
        config = als_pb2.TcpGrpcAccessLogConfig(common_config=common)
        return "envoy.access_loggers.tcp_grpc", config
    return "envoy.access_loggers.http_grpc", als_pb2.HttpGrpcAccessLogConfig(
        common_config=common,
        additional_request_headers_to_log=target.request_headers,
        additional_response_headers_to_log=target.response_headers,
        additional_response_trailers_to_log=target.response_trailers,
    )


def _otel(target: OtelTarget) -> tuple[str, Message]:
    labels = json.loads(target.labels) if target.labels else {}
    config = logs_service_pb2.OpenTelemetryAccessLogConfig(
        common_config=als_pb2.CommonGrpcAccessLogConfig(
            log_name=target.log_name or "otel_envoy_accesslog",
            grpc_service=_grpc(target.cluster, target.authority),
            transport_api_version=source_pb2.ApiVersion.V3,
        ),
        body=otel_pb2.AnyValue(string_value=target.text or DEFAULT_TEXT),
    )
    config.attributes.values.extend(
        otel_pb2.KeyValue(key=key, value=_any_value(value)) for key, value in labels.items()
    )
    return "envoy.access_loggers.open_telemetry", config


def _any_value(value: Unchecked) -> otel_pb2.AnyValue:
    """Return a value as OpenTelemetry has it; Envoy takes texts alone, in lists and objects too."""
    if isinstance(value, dict):
        pairs = [otel_pb2.KeyValue(key=key, value=_any_value(each)) for key, each in value.items()]
        return otel_pb2.AnyValue(kvlist_value=otel_pb2.KeyValueList(values=pairs))
    if isinstance(value, list):
        values = [_any_value(each) for each in value]
        return otel_pb2.AnyValue(array_value=otel_pb2.ArrayValue(values=values))
    return otel_pb2.AnyValue(string_value=value if isinstance(value, str) else json.dumps(value))


def _grpc(cluster: str, authority: str) -> grpc_service_pb2.GrpcService:
    return grpc_service_pb2.GrpcService(
        envoy_grpc=grpc_service_pb2.GrpcService.EnvoyGrpc(cluster_name=cluster, authority=authority)
    )
