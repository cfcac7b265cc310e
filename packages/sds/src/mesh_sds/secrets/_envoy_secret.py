"""A secret in the form in which Envoy reads it, packed as an xDS resource.

https://www.envoyproxy.io/docs/envoy/latest/api-v3/extensions/transport_sockets/tls/v3/secret.proto

The few fields are written one by one: the library with all of Envoy's messages would stay in the
memory of each workload's agent.
"""

from __future__ import annotations

from dataclasses import dataclass

from mesh_protowire import bytes_field, string_field, varint_field
from mesh_sds.secrets._leaf_serial import leaf_serial
from mesh_sds.secrets._private_key_provider import PrivateKeyProvider, provider_message
from mesh_sds.secrets._secrets import Secret, TlsCertificate, TrustBundle
from xds_server import Resource, content_version, type_urls

_INLINE_BYTES = 2  # of DataSource
_NAME, _TLS_CERTIFICATE, _VALIDATION_CONTEXT = 1, 2, 4  # of Secret
_CERTIFICATE_CHAIN, _PRIVATE_KEY, _PRIVATE_KEY_PROVIDER = 1, 2, 6  # of TlsCertificate
_TRUSTED_CA, _CRL, _ONLY_VERIFY_LEAF_CERT_CRL = 1, 7, 14  # of CertificateValidationContext


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
    if isinstance(secret, TlsCertificate):
        content = bytes_field(_TLS_CERTIFICATE, _tls_certificate(secret, provider))
    else:
        content = bytes_field(_VALIDATION_CONTEXT, _validation_context(secret))
    body = string_field(_NAME, name) + content
    return SecretResource(
        name=name,
        type_url=type_urls.SECRET,
        body=body,
        version=content_version(body),
        serial=leaf_serial(secret.chain_pem) if isinstance(secret, TlsCertificate) else None,
    )


def _tls_certificate(secret: TlsCertificate, provider: PrivateKeyProvider | None) -> bytes:
    chain = _data_source(_CERTIFICATE_CHAIN, secret.chain_pem)
    if provider is None:
        return chain + _data_source(_PRIVATE_KEY, secret.private_key_pem)
    message = provider_message(provider, secret.private_key_pem)
    return chain + bytes_field(_PRIVATE_KEY_PROVIDER, message)


def _validation_context(secret: TrustBundle) -> bytes:
    roots = _data_source(_TRUSTED_CA, secret.roots_pem)
    if not secret.crl_pem:
        return roots
    leaf_only = b""
    if secret.crl_of_leaf_only:
        leaf_only = varint_field(_ONLY_VERIFY_LEAF_CERT_CRL, 1)
    return roots + _data_source(_CRL, secret.crl_pem) + leaf_only


def _data_source(number: int, content: bytes) -> bytes:
    return bytes_field(number, bytes_field(_INLINE_BYTES, content))
