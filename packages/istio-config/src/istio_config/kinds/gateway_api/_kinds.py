"""The kinds of the Gateway API that have an effect."""

from typing import Any

from istio_config.kinds.gateway_api._connection_routes import TCP_ROUTE, TLS_ROUTE
from istio_config.kinds.gateway_api._gateway_class import GATEWAY_CLASS
from istio_config.kinds.gateway_api._gateway_rules import GATEWAY
from istio_config.kinds.gateway_api._grpc_route import GRPC_ROUTE
from istio_config.kinds.gateway_api._http_route_rules import HTTP_ROUTE
from istio_config.kinds.gateway_api._reference_grant import REFERENCE_GRANT
from istio_config.kinds.kind import Kind

GATEWAY_API_KINDS: tuple[Kind[Any], ...] = (
    GATEWAY_CLASS,
    GATEWAY,
    HTTP_ROUTE,
    GRPC_ROUTE,
    TLS_ROUTE,
    TCP_ROUTE,
    REFERENCE_GRANT,
)
