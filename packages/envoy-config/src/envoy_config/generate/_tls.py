"""Transport sockets: mutual TLS between proxies, with certificates from the agents over SDS.

ALPN: `istio` tells a PERMISSIVE port that TLS comes from a mesh proxy. `istio-peer-exchange` is
never offered: it promises Istio's metadata exchange filter, which other Envoys do not have.
"""

import functools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from envoy.config.core.v3 import proxy_protocol_pb2 as core_proxy_protocol_pb2
from envoy.extensions.transport_sockets.proxy_protocol.v3 import upstream_proxy_protocol_pb2
from google.protobuf.message import Message

from envoy_config.generate._messages import (
    base_pb2,
    common_pb2,
    packed,
    raw_buffer_pb2,
    secret_pb2,
    string_pb2,
    tls_pb2,
    wrappers_pb2,
)
from envoy_config.generate._secret_references import (
    TRUST_BUNDLE,
    WORKLOAD_CERTIFICATE,
    agent_secret,
)
from istio_config.addresses import is_ip
from istio_config.kinds.mesh_config import LeastTlsVersion, MeshTls
from mesh_identity import spiffe_prefix

MESH_ALPN = ("istio", "istio-peer-exchange", "istio-http/1.0", "istio-http/1.1", "istio-h2")
"""The ALPN protocols by which mesh proxies, ours and Istio's, offer mutual TLS of the mesh."""

_CIPHERS = (
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
)


def server_socket(
    *, trust_domains: Sequence[str], http: bool, settings: MeshTls | None
) -> base_pb2.TransportSocket:
    """Make an inbound socket: a certificate of our trust domain is required of the client.

    settings: mesh config's, of the mesh's own TLS.
    """
    context = tls_pb2.DownstreamTlsContext(
        common_tls_context=_common(
            matchers=[
                _san(string_pb2.StringMatcher(prefix=spiffe_prefix(domain)), uri=True)
                for domain in trust_domains
            ],
            alpn=("h2", "http/1.1") if http else (),
            settings=settings,
            cipher_suites=_CIPHERS,
        ),
        require_client_certificate=wrappers_pb2.BoolValue(value=True),
    )
    return _socket(context)


def client_socket(*, peers: Iterable[str], sni: str, http2: bool) -> base_pb2.TransportSocket:
    """Make an outbound socket: the server must be one of these, SPIFFE ids or DNS names.

    Without peers, every workload with a certificate of our CA is accepted.
    """
    context = tls_pb2.UpstreamTlsContext()
    context.CopyFrom(_to_any_peer(http2=http2))
    checked = context.common_tls_context.combined_validation_context.default_validation_context
    checked.match_typed_subject_alt_names.extend(map(_exact_san, peers))
    context.sni = sni
    return _socket(context)


@functools.cache
def _to_any_peer(*, http2: bool) -> tls_pb2.UpstreamTlsContext:
    """Make what contexts are copied from, which takes a fraction of making each."""
    alpn = ("istio", "h2") if http2 else ("istio",)
    return tls_pb2.UpstreamTlsContext(
        common_tls_context=_common(matchers=(), alpn=alpn, settings=None)
    )


class Origination(NamedTuple):
    """TLS of a service's own, not the mesh's: certificates from files or credentials."""

    sni: str
    names: Sequence[str]
    """The names of which the server's certificate must have one; empty: any."""
    certificate: secret_pb2.SdsSecretConfig | None
    roots: secret_pb2.SdsSecretConfig | None
    """None: the server's certificate is not checked."""
    crl: str
    """The path of a revocation list at the proxy."""
    http2: bool
    settings: MeshTls | None


def origination_socket(tls: Origination) -> base_pb2.TransportSocket:
    """Make an outbound socket of TLS that the service has itself."""
    common = tls_pb2.CommonTlsContext(
        tls_params=_parameters(tls.settings),
        alpn_protocols=("h2",) if tls.http2 else (),
        tls_certificate_sds_secret_configs=[tls.certificate] if tls.certificate is not None else (),
    )
    if tls.roots is not None:
        checked = common_pb2.CertificateValidationContext(
            match_typed_subject_alt_names=[_exact_san(each) for each in tls.names]
        )
        if tls.crl:
            checked.crl.filename = tls.crl
        common.combined_validation_context.default_validation_context.CopyFrom(checked)
        common.combined_validation_context.validation_context_sds_secret_config.CopyFrom(tls.roots)
    return _socket(tls_pb2.UpstreamTlsContext(common_tls_context=common, sni=tls.sni))


def behind_proxy_protocol(
    inner: base_pb2.TransportSocket, *, version: int
) -> base_pb2.TransportSocket:
    """Make a socket that sends the PROXY protocol's header before all else; version: 1 or 2."""
    versions = core_proxy_protocol_pb2.ProxyProtocolConfig
    return base_pb2.TransportSocket(
        name="envoy.transport_sockets.upstream_proxy_protocol",
        typed_config=packed(
            upstream_proxy_protocol_pb2.ProxyProtocolUpstreamTransport(
                config=versions(version=versions.V1 if version == 1 else versions.V2),
                transport_socket=inner,
            )
        ),
    )


@functools.cache
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
    settings: MeshTls | None,
    cipher_suites: Sequence[str] = (),
) -> tls_pb2.CommonTlsContext:
    return tls_pb2.CommonTlsContext(
        tls_params=_parameters(settings, cipher_suites=cipher_suites),
        alpn_protocols=alpn,
        tls_certificate_sds_secret_configs=[agent_secret(WORKLOAD_CERTIFICATE)],
        combined_validation_context=tls_pb2.CommonTlsContext.CombinedCertificateValidationContext(
            default_validation_context=common_pb2.CertificateValidationContext(
                match_typed_subject_alt_names=matchers
            ),
            validation_context_sds_secret_config=agent_secret(TRUST_BUNDLE),
        ),
    )


def _parameters(
    settings: MeshTls | None, *, cipher_suites: Sequence[str] = ()
) -> common_pb2.TlsParameters:
    least = settings.min_protocol_version if settings is not None else LeastTlsVersion.TLS_AUTO
    versions = common_pb2.TlsParameters
    return versions(
        tls_minimum_protocol_version=(
            versions.TLSv1_3 if least is LeastTlsVersion.TLSV1_3 else versions.TLSv1_2
        ),
        tls_maximum_protocol_version=versions.TLSv1_3,
        cipher_suites=(settings.cipher_suites if settings is not None else ()) or cipher_suites,
        ecdh_curves=settings.ecdh_curves if settings is not None else (),
    )


def _exact_san(name: str) -> common_pb2.SubjectAltNameMatcher:
    kinds = common_pb2.SubjectAltNameMatcher
    matcher = string_pb2.StringMatcher(exact=name)
    if is_ip(name):
        return kinds(san_type=kinds.IP_ADDRESS, matcher=matcher)
    if "@" in name and "://" not in name:
        return kinds(san_type=kinds.EMAIL, matcher=matcher)
    return _san(matcher, uri="://" in name)


def _san(matcher: string_pb2.StringMatcher, *, uri: bool) -> common_pb2.SubjectAltNameMatcher:
    kinds = common_pb2.SubjectAltNameMatcher
    return kinds(san_type=kinds.URI if uri else kinds.DNS, matcher=matcher)
