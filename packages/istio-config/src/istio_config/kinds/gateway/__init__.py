"""Gateway: the ports that routers open, with their hosts and certificates."""

from istio_config.kinds.gateway._hosts import ServerHost, parse_server_host
from istio_config.kinds.gateway._kind import GATEWAY, GatewaySpec, Server, ServerPort
from istio_config.kinds.gateway._server_tls import (
    CIPHERS,
    CURVES,
    MOST_CERTIFICATES,
    ServerTlsSettings,
    TlsMode,
    TlsProtocol,
    server_tls_mistakes,
)

__all__ = [
    "CIPHERS",
    "CURVES",
    "GATEWAY",
    "GatewaySpec",
    "MOST_CERTIFICATES",
    "Server",
    "ServerHost",
    "ServerPort",
    "ServerTlsSettings",
    "TlsMode",
    "TlsProtocol",
    "parse_server_host",
    "server_tls_mistakes",
]
