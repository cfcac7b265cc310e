"""Envoy's Secret Discovery Service on a Unix socket, with secrets from your own source."""

from mesh_listening import AllowedPeers, ConnectionLimits, PeerCredentials
from mesh_sds._config import SdsConfig
from mesh_sds._errors import ConfigError, SdsError, SocketUnusable
from mesh_sds._server import SdsServer, Subscriber, serving
from mesh_sds.delivery._delivery_status import Delivered, Delivery
from mesh_sds.secrets._private_key_provider import KeyAccelerator, PrivateKeyProvider
from mesh_sds.secrets._secrets import SecretSource, TlsCertificate, TrustBundle
from mesh_sds.socket_path._choice import choose_socket
from mesh_sds.socket_path._probe import (
    ForeignSocket,
    OwnSocket,
    SecretApi,
    SocketChoice,
    probe,
)

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
