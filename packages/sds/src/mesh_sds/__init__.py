"""Envoy's Secret Discovery Service on a Unix socket, with secrets from your own source.

Importing this package loads its configuration; the rest, and gRPC, is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from mesh_listening import AllowedPeers, ConnectionLimits, PeerCredentials
from mesh_sds._config import DEFAULT_SOCKET_NAME, SdsConfig
from mesh_sds._errors import ConfigError, SdsError, SocketUnusable
from mesh_sds.secrets._private_key_provider import KeyAccelerator, PrivateKeyProvider

if TYPE_CHECKING:
    from mesh_sds._server import SdsServer, Subscriber, serving
    from mesh_sds.delivery._delivery_status import Delivered, Delivery
    from mesh_sds.secrets._secrets import SecretSource, TlsCertificate, TrustBundle
    from mesh_sds.socket_path._choice import choose_socket
    from mesh_sds.socket_path._probe import ForeignSocket, OwnSocket, SecretApi, SocketChoice, probe

__all__ = [
    # secrets
    "SecretSource",
    "TlsCertificate",
    "TrustBundle",
    # the server
    "SdsConfig",
    "SdsServer",
    "serving",
    # access, and private key providers
    "AllowedPeers",
    "ConnectionLimits",
    "KeyAccelerator",
    "PeerCredentials",
    "PrivateKeyProvider",
    # delivery status
    "Delivered",
    "Delivery",
    "Subscriber",
    # a server of another process at our path
    "DEFAULT_SOCKET_NAME",
    "ForeignSocket",
    "OwnSocket",
    "SecretApi",
    "SocketChoice",
    "choose_socket",
    "probe",
    # errors
    "ConfigError",
    "SdsError",
    "SocketUnusable",
]

_LOADED_WHEN_USED = {
    "SdsServer": "_server",
    "Subscriber": "_server",
    "serving": "_server",
    "Delivered": "delivery._delivery_status",
    "Delivery": "delivery._delivery_status",
    "SecretSource": "secrets._secrets",
    "TlsCertificate": "secrets._secrets",
    "TrustBundle": "secrets._secrets",
    "choose_socket": "socket_path._choice",
    "ForeignSocket": "socket_path._probe",
    "OwnSocket": "socket_path._probe",
    "SecretApi": "socket_path._probe",
    "SocketChoice": "socket_path._probe",
    "probe": "socket_path._probe",
}

if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> object:
        if (home := _LOADED_WHEN_USED.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        return value
