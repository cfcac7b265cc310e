"""The two kinds of secret, who provides them, and how Envoy reads them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from xds_server import Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsCertificate:
    """What one side of a handshake shows. chain_pem: leaf first, no root."""

    chain_pem: bytes
    private_key_pem: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustBundle:
    """What the other side is checked against: any number of roots, as PEM."""

    roots_pem: bytes


Secret = TlsCertificate | TrustBundle


class SecretSource(Protocol):
    """Where secrets come from: the state now, and word of every change."""

    def get(self, name: str) -> TlsCertificate | TrustBundle | None:
        """Return the newest secret of that name; None: there is none, or none yet. Never blocks."""

    def changes(self) -> AsyncIterator[frozenset[str]]:
        """Yield names whose secret changed, appeared or went away.

        Changes may be gathered into one set, but the last one of a name is never missed.
        """


def secret_resource(name: str, secret: Secret) -> Resource:
    """Pack a secret as Envoy's `extensions.transport_sockets.tls.v3.Secret`."""
    # The envoy modules carry no types: the message does not leave this function.
    from envoy.extensions.transport_sockets.tls.v3 import secret_pb2

    message: Any = secret_pb2.Secret(name=name)
    match secret:
        case TlsCertificate():
            message.tls_certificate.certificate_chain.inline_bytes = secret.chain_pem
            message.tls_certificate.private_key.inline_bytes = secret.private_key_pem
        case TrustBundle():
            message.validation_context.trusted_ca.inline_bytes = secret.roots_pem
    return Resource.pack(message, name=name)
