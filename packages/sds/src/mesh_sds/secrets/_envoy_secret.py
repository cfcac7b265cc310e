"""A secret as Envoy reads it, and what can be told of one without telling the secret.

The modules of Envoy's messages carry no types: no message leaves this file.
"""

from dataclasses import dataclass
from typing import Any

from mesh_sds.secrets._leaf_serial import leaf_serial
from mesh_sds.secrets._private_key_provider import PrivateKeyProvider, write_provider
from mesh_sds.secrets._secrets import Secret, TlsCertificate, TrustBundle
from xds_server import Resource, content_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What tells one state of a secret from another.

    version: a hash of the content. serial: of the leaf, hexadecimal as openssl prints it in lower
    case; None for a trust bundle and for what is no certificate.
    """

    name: str
    version: str
    serial: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What one response holds."""

    nonce: str
    secrets: tuple[Label, ...]
    removed: frozenset[str] = frozenset()


def secret_resource(
    name: str, secret: Secret, *, provider: PrivateKeyProvider | None = None
) -> Resource:
    """Pack a secret as Envoy's `extensions.transport_sockets.tls.v3.Secret`."""
    from envoy.extensions.transport_sockets.tls.v3 import secret_pb2

    message: Any = secret_pb2.Secret(name=name)
    match secret:
        case TlsCertificate():
            certificate = message.tls_certificate
            certificate.certificate_chain.inline_bytes = secret.chain_pem
            if provider is None:
                certificate.private_key.inline_bytes = secret.private_key_pem
            else:
                write_provider(certificate.private_key_provider, provider, secret.private_key_pem)
        case TrustBundle():
            context = message.validation_context
            context.trusted_ca.inline_bytes = secret.roots_pem
            if secret.crl_pem:
                context.crl.inline_bytes = secret.crl_pem
                context.only_verify_leaf_cert_crl = secret.crl_of_leaf_only
    return Resource.pack(message, name=name)


def contents_of(response: bytes, *, delta: bool) -> Contents:
    """Read a response of either dialect that was sent."""
    from envoy.service.discovery.v3 import discovery_pb2

    if delta:
        message: Any = discovery_pb2.DeltaDiscoveryResponse.FromString(response)
        bodies = [resource.resource.value for resource in message.resources]
        removed = frozenset(message.removed_resources)
    else:
        message = discovery_pb2.DiscoveryResponse.FromString(response)
        bodies = [resource.value for resource in message.resources]
        removed = frozenset()
    return Contents(
        nonce=message.nonce,
        secrets=tuple(map(_label, bodies)),
        removed=removed,
    )


def _label(body: bytes) -> Label:
    from envoy.extensions.transport_sockets.tls.v3 import secret_pb2

    message: Any = secret_pb2.Secret.FromString(body)
    return Label(
        name=message.name,
        version=content_version(body),
        serial=leaf_serial(message.tls_certificate.certificate_chain.inline_bytes),
    )
