"""A secret as Envoy reads it, and what can be told of one without telling the secret.

The modules of Envoy's messages carry no types: no message leaves this file.
"""

import ssl
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mesh_sds._private_key_provider import PrivateKeyProvider, write_provider
from mesh_sds._secrets import Secret, TlsCertificate, TrustBundle
from xds_server import Resource, content_version

_END_OF_CERTIFICATE = b"-----END CERTIFICATE-----"
_BEGIN_OF_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"
# RFC 5280, 4.1.2.2 allows 20 octets; some issuers use more.
_LONGEST_SERIAL_BYTES = 64


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


@lru_cache(maxsize=64)
def leaf_serial(chain_pem: bytes) -> str | None:
    """Return the serial number of the first certificate; None if that can't be read.

    Read off the encoding: it is only shown, so a library for certificates would be a large
    dependency for one number.
    """
    start = chain_pem.find(_BEGIN_OF_CERTIFICATE)
    end = chain_pem.find(_END_OF_CERTIFICATE, start)
    if start < 0 or end < 0:
        return None
    try:
        text = chain_pem[start : end + len(_END_OF_CERTIFICATE)].decode("ascii")
        return _serial(ssl.PEM_cert_to_DER_cert(text))
    except (ValueError, IndexError):  # not ASCII, not base64, cut short
        return None


def _serial(certificate: bytes) -> str | None:
    """Certificate ::= SEQUENCE { SEQUENCE { [0] version OPTIONAL, serialNumber INTEGER, ..."""
    _, at, _ = _element(certificate, 0)
    _, at, _ = _element(certificate, at)
    tag, start, end = _element(certificate, at)
    if tag == 0xA0:
        tag, start, end = _element(certificate, end)
    value = certificate[start:end]
    if tag != 0x02 or not 0 < len(value) <= _LONGEST_SERIAL_BYTES:
        return None
    return f"{int.from_bytes(value, 'big', signed=True):x}"


def _element(data: bytes, at: int) -> tuple[int, int, int]:
    """Return an element's tag, and where its value begins and ends. Raises IndexError."""
    tag, length, start = data[at], data[at + 1], at + 2
    if length > 0x80:
        octets = length & 0x7F
        length = int.from_bytes(data[start : start + octets], "big")
        start += octets
    if start + length > len(data):
        raise IndexError(f"element at byte {at} is cut short")
    return tag, start, start + length
