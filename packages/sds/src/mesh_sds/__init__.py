"""Envoy's Secret Discovery Service on a Unix socket, over a source of secrets of your own."""

from mesh_sds._errors import SdsError, SocketUnusable
from mesh_sds._secrets import SecretSource, TlsCertificate, TrustBundle
from mesh_sds._server import SdsConfig, SdsServer, Subscriber, serving

__all__ = [
    # secrets
    "SecretSource",
    "TlsCertificate",
    "TrustBundle",
    # the server
    "SdsConfig",
    "SdsServer",
    "Subscriber",
    "serving",
    # errors
    "SdsError",
    "SocketUnusable",
]
