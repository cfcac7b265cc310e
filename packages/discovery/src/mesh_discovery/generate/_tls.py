"""Transport sockets: mutual TLS between proxies, with certificates from the agents over SDS.

ALPN: `istio` tells a PERMISSIVE port that TLS comes from a mesh proxy. `istio-peer-exchange` is
never offered: it promises Istio's metadata exchange filter, which other Envoys do not have.
"""

from collections.abc import Iterable, Sequence

from google.protobuf.message import Message

from mesh_discovery.generate._messages import (
    base_pb2,
    common_pb2,
    packed,
    raw_buffer_pb2,
    string_pb2,
    tls_pb2,
    wrappers_pb2,
)
from mesh_discovery.generate._secret_references import (
    TRUST_BUNDLE,
    WORKLOAD_CERTIFICATE,
    agent_secret,
)
from mesh_identity import spiffe_prefix

MESH_ALPN = ("istio", "istio-peer-exchange", "istio-http/1.0", "istio-http/1.1", "istio-h2")
"""The ALPN protocols by which mesh proxies, ours and Istio's, offer mutual TLS of the mesh."""

_CIPHERS = (
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
)


def server_socket(*, trust_domains: Sequence[str], http: bool) -> base_pb2.TransportSocket:
    """Make an inbound socket: a certificate of our trust domain is required of the client."""
    context = tls_pb2.DownstreamTlsContext(
        common_tls_context=_common(
            matchers=[
                _san(string_pb2.StringMatcher(prefix=spiffe_prefix(domain)), uri=True)
                for domain in trust_domains
            ],
            alpn=("h2", "http/1.1") if http else (),
            cipher_suites=_CIPHERS,
        ),
        require_client_certificate=wrappers_pb2.BoolValue(value=True),
    )
    return _socket(context)


def client_socket(*, peers: Iterable[str], sni: str, http2: bool) -> base_pb2.TransportSocket:
    """Make an outbound socket: the server must be one of these, SPIFFE ids or DNS names.

    Without peers, every workload with a certificate of our CA is accepted.
    """
    context = tls_pb2.UpstreamTlsContext(
        common_tls_context=_common(
            matchers=[
                _san(string_pb2.StringMatcher(exact=peer), uri="://" in peer) for peer in peers
            ],
            alpn=("istio", "h2") if http2 else ("istio",),
        ),
        sni=sni,
    )
    return _socket(context)


def plain_socket() -> base_pb2.TransportSocket:
    """Make a socket without TLS."""
    return base_pb2.TransportSocket(
        name="envoy.transport_sockets.raw_buffer", typed_config=packed(raw_buffer_pb2.RawBuffer())
    )


def _socket(context: Message) -> base_pb2.TransportSocket:
    return base_pb2.TransportSocket(
        name="envoy.transport_sockets.tls", typed_config=packed(context)
    )


def _common(
    *,
    matchers: Sequence[common_pb2.SubjectAltNameMatcher],
    alpn: Sequence[str],
    cipher_suites: Sequence[str] = (),
) -> tls_pb2.CommonTlsContext:
    return tls_pb2.CommonTlsContext(
        tls_params=common_pb2.TlsParameters(
            tls_minimum_protocol_version=common_pb2.TlsParameters.TLSv1_2,
            tls_maximum_protocol_version=common_pb2.TlsParameters.TLSv1_3,
            cipher_suites=cipher_suites,
        ),
        alpn_protocols=alpn,
        tls_certificate_sds_secret_configs=[agent_secret(WORKLOAD_CERTIFICATE)],
        combined_validation_context=tls_pb2.CommonTlsContext.CombinedCertificateValidationContext(
            default_validation_context=common_pb2.CertificateValidationContext(
                match_typed_subject_alt_names=matchers
            ),
            validation_context_sds_secret_config=agent_secret(TRUST_BUNDLE),
        ),
    )


def _san(matcher: string_pb2.StringMatcher, *, uri: bool) -> common_pb2.SubjectAltNameMatcher:
    kinds = common_pb2.SubjectAltNameMatcher
    return kinds(san_type=kinds.URI if uri else kinds.DNS, matcher=matcher)
