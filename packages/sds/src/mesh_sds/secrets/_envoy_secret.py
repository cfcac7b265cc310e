"""A secret in the form in which Envoy reads it, packed as an xDS resource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mesh_sds.secrets._leaf_serial import leaf_serial
from mesh_sds.secrets._private_key_provider import PrivateKeyProvider, write_provider
from mesh_sds.secrets._secrets import Secret, TlsCertificate, TrustBundle
from xds_server import Resource

if TYPE_CHECKING:
    from envoy.extensions.transport_sockets.tls.v3 import secret_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretResource(Resource):
    """A packed secret.

    serial: of the leaf, hexadecimal as openssl prints it in lower case; None for a trust bundle and
    for a chain that can't be read.
    """

    serial: str | None


def secret_resource(
    name: str, secret: Secret, *, provider: PrivateKeyProvider | None = None
) -> SecretResource:
    """Pack a secret as Envoy's `extensions.transport_sockets.tls.v3.Secret`."""
    packed = Resource.pack(_envoy_secret(name, secret, provider), name=name)
    return SecretResource(
        name=name,
        type_url=packed.type_url,
        body=packed.body,
        version=packed.version,
        serial=leaf_serial(secret.chain_pem) if isinstance(secret, TlsCertificate) else None,
    )


def _envoy_secret(
    name: str, secret: Secret, provider: PrivateKeyProvider | None
) -> secret_pb2.Secret:
    from envoy.extensions.transport_sockets.tls.v3 import secret_pb2

    message = secret_pb2.Secret(name=name)
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
    return message
