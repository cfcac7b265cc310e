"""A small HTTP server beside a workload: readiness, merged metrics, probes of the application.

Each part is usable alone; none needs a web framework or a metrics library.
"""

from mesh_status_server._app_probes import PROBE_SOURCES, AppProbes
from mesh_status_server._endpoints import Endpoint, Endpoints
from mesh_status_server._errors import (
    FetchError,
    ListenError,
    StatusServerError,
    TooManyError,
)
from mesh_status_server.http._fetching import Address, TcpAddress
from mesh_status_server.http._messages import (
    Handler,
    Reply,
    Request,
    Response,
    Send,
    Start,
    Streamed,
)
from mesh_status_server.http._passing_on import passed_on
from mesh_status_server.http._server import http_server
from mesh_status_server.metrics._exposition import Kind, Metric, Sample, counter, gauge, render
from mesh_status_server.metrics._merged import MergedMetrics, ScrapeCounts
from mesh_status_server.metrics._pages import Source, application_source, envoy_source

__all__ = [
    # serving
    "http_server",
    "Handler",
    "Request",
    "Reply",
    "Response",
    "Streamed",
    "Send",
    "Start",
    # who answers what
    "Endpoint",
    "Endpoints",
    # another server's answer
    "Address",
    "TcpAddress",
    "passed_on",
    # metrics of one's own
    "Kind",
    "Metric",
    "Sample",
    "counter",
    "gauge",
    "render",
    # merged with others'
    "MergedMetrics",
    "ScrapeCounts",
    "Source",
    "application_source",
    "envoy_source",
    # probes of the application
    "AppProbes",
    "PROBE_SOURCES",
    # errors
    "StatusServerError",
    "FetchError",
    "ListenError",
    "TooManyError",
]
