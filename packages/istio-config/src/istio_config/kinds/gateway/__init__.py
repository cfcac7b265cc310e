"""Gateway: the ports that routers open, with their hosts and certificates."""

from istio_config.kinds.gateway._hosts import ServerHost, parse_server_host
from istio_config.kinds.gateway._kind import GATEWAY
from istio_config.kinds.gateway._spec import (
    GatewaySpec,
    Server,
    ServerPort,
    ServerTlsSettings,
    TlsMode,
    TlsProtocol,
)
from istio_config.kinds.gateway._tls_rules import CIPHERS, MOST_CERTIFICATES, tls_mistakes

__all__ = [
    "CIPHERS",
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
    "tls_mistakes",
]
