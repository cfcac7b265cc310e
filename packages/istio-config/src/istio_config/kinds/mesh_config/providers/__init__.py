"""Extension providers of mesh config: the services that authorize, trace and take logs."""

from istio_config.kinds.mesh_config.providers._authorizers import (
    Authorizer,
    GrpcAuthorizer,
    HttpAuthorizer,
    RequestBodyInCheck,
)
from istio_config.kinds.mesh_config.providers._headers import SentHeader
from istio_config.kinds.mesh_config.providers._loggers import (
    FileLog,
    HttpLogService,
    Logger,
    OtelLogService,
    TcpLogService,
    log_label_mistakes,
)
from istio_config.kinds.mesh_config.providers._provider import (
    PROMETHEUS,
    DefaultProviders,
    ExtensionProvider,
    default_provider_mistakes,
    provider_mistakes,
    provider_warnings,
)
from istio_config.kinds.mesh_config.providers._tracers import (
    Datadog,
    OpenTelemetry,
    SkyWalking,
    TraceContext,
    Tracer,
    Zipkin,
)

__all__ = [
    "PROMETHEUS",
    "Authorizer",
    "Datadog",
    "DefaultProviders",
    "ExtensionProvider",
    "FileLog",
    "GrpcAuthorizer",
    "HttpAuthorizer",
    "HttpLogService",
    "Logger",
    "OpenTelemetry",
    "OtelLogService",
    "RequestBodyInCheck",
    "SentHeader",
    "SkyWalking",
    "TcpLogService",
    "TraceContext",
    "Tracer",
    "Zipkin",
    "default_provider_mistakes",
    "log_label_mistakes",
    "provider_mistakes",
    "provider_warnings",
]
