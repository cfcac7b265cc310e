"""Extension providers of mesh config: the services that authorize, trace and take logs."""

from istio_config.kinds.mesh_config.providers._authorizers import (
    GrpcAuthorizer,
    HttpAuthorizer,
    RequestBodyInCheck,
)
from istio_config.kinds.mesh_config.providers._log_mistakes import label_mistakes
from istio_config.kinds.mesh_config.providers._loggers import (
    FileLog,
    HttpLogService,
    OtelLogService,
    TcpLogService,
)
from istio_config.kinds.mesh_config.providers._mistakes import (
    default_mistakes,
    provider_mistakes,
    provider_warnings,
)
from istio_config.kinds.mesh_config.providers._provider import (
    Authorizer,
    DefaultProviders,
    ExtensionProvider,
    Logger,
    Tracer,
)
from istio_config.kinds.mesh_config.providers._tracers import (
    Datadog,
    OpenTelemetry,
    SentHeader,
    SkyWalking,
    TraceContext,
    Zipkin,
)

__all__ = [
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
    "default_mistakes",
    "label_mistakes",
    "provider_mistakes",
    "provider_warnings",
]
