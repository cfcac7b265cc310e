"""TLS of a gateway's server: the certificates that it shows, and the clients that it lets in."""

from collections.abc import Iterable, Sequence

from envoy_config.generate._messages import (
    base_pb2,
    common_pb2,
    packed,
    secret_pb2,
    string_pb2,
    tls_pb2,
    wrappers_pb2,
)
from envoy_config.generate._secret_references import (
    TRUST_BUNDLE,
    WORKLOAD_CERTIFICATE,
    agent_secret,
    file_roots,
    files_certificate,
    mesh_secret,
)
from istio_config.addresses import is_ip
from istio_config.kinds.gateway import (
    CIPHERS,
    CURVES,
    MOST_CERTIFICATES,
    ServerTlsSettings,
    TlsMode,
    TlsProtocol,
)
from istio_config.kinds.mesh_config import LeastTlsVersion, MeshTls
from mesh_identity import spiffe_prefix
from mesh_model.secrets import BUILTIN, credential, credential_roots

_ALPN = ("h2", "http/1.1")
_Params = common_pb2.TlsParameters
_VERSIONS = {
    TlsProtocol.TLSV1_0: _Params.TLSv1_0,
    TlsProtocol.TLSV1_1: _Params.TLSv1_1,
    TlsProtocol.TLSV1_2: _Params.TLSv1_2,
    TlsProtocol.TLSV1_3: _Params.TLSv1_3,
}
_LEAST = {
    LeastTlsVersion.TLSV1_2: _Params.TLSv1_2,
    LeastTlsVersion.TLSV1_3: _Params.TLSv1_3,
}
_Validation = common_pb2.CertificateValidationContext


def server_socket(
    tls: ServerTlsSettings, *, trust_domains: Sequence[str], defaults: MeshTls
) -> base_pb2.TransportSocket:
    """Make the socket of a server that ends TLS.

    trust_domains: of the clients of mode ISTIO_MUTUAL. defaults: of the mesh, for other modes.
    """
    mutual = tls.mode in (TlsMode.MUTUAL, TlsMode.ISTIO_MUTUAL)
    common = tls_pb2.CommonTlsContext(
        alpn_protocols=_ALPN,
        tls_params=_params(tls, defaults),
        tls_certificate_sds_secret_configs=_certificates(tls),
    )
    if tls.mode is TlsMode.ISTIO_MUTUAL:
        matchers = _matchers(tls.subject_alt_names) or [
            _san(
                common_pb2.SubjectAltNameMatcher.URI,
                string_pb2.StringMatcher(prefix=spiffe_prefix(each)),
            )
            for each in trust_domains
        ]
        _validate(
            common,
            _Validation(match_typed_subject_alt_names=matchers),
            agent_secret(TRUST_BUNDLE),
        )
    elif tls.mode.asks_for_client_certificates:
        _validate(common, _client_rules(tls), _roots(tls))
    context = tls_pb2.DownstreamTlsContext(
        common_tls_context=common,
        require_client_certificate=wrappers_pb2.BoolValue(value=mutual),
    )
    return base_pb2.TransportSocket(
        name="envoy.transport_sockets.tls", typed_config=packed(context)
    )


def _certificates(tls: ServerTlsSettings) -> list[secret_pb2.SdsSecretConfig]:
    if tls.mode is TlsMode.ISTIO_MUTUAL or tls.credential_name == BUILTIN:
        return [agent_secret(WORKLOAD_CERTIFICATE)]
    if tls.credentials:
        names = tls.credentials[:MOST_CERTIFICATES]
        return [mesh_secret(credential(each)) for each in names]
    if tls.tls_certificates:
        return [
            agent_secret(files_certificate(each.server_certificate, each.private_key))
            for each in tls.tls_certificates[:MOST_CERTIFICATES]
        ]
    return [agent_secret(files_certificate(tls.server_certificate, tls.private_key))]


def _roots(tls: ServerTlsSettings) -> secret_pb2.SdsSecretConfig | None:
    if tls.ca_cert_credential_name:
        return mesh_secret(credential_roots(tls.ca_cert_credential_name))
    files = (tls.ca_certificates, *(each.ca_certificates for each in tls.tls_certificates))
    if (path := next(filter(None, files), None)) is not None:
        return agent_secret(file_roots(path))
    if tls.credentials and not tls.insecure_skip_verify:
        return mesh_secret(credential_roots(tls.credentials[0]))
    return None


def _validate(
    common: tls_pb2.CommonTlsContext,
    rules: common_pb2.CertificateValidationContext,
    roots: secret_pb2.SdsSecretConfig | None,
) -> None:
    if roots is None:
        common.validation_context.CopyFrom(rules)
        return
    common.combined_validation_context.default_validation_context.CopyFrom(rules)
    common.combined_validation_context.validation_context_sds_secret_config.CopyFrom(roots)


def _client_rules(tls: ServerTlsSettings) -> common_pb2.CertificateValidationContext:
    rules = _Validation(
        match_typed_subject_alt_names=_matchers(tls.subject_alt_names),
        verify_certificate_spki=tls.verify_certificate_spki,
        verify_certificate_hash=tls.verify_certificate_hash,
    )
    if tls.ca_crl:
        rules.crl.filename = tls.ca_crl
    if tls.insecure_skip_verify:
        rules.trust_chain_verification = _Validation.ACCEPT_UNTRUSTED
    return rules


def _matchers(names: Iterable[str]) -> list[common_pb2.SubjectAltNameMatcher]:
    return [_san(_san_type(each), string_pb2.StringMatcher(exact=each)) for each in names]


def _san(
    san_type: "common_pb2.SubjectAltNameMatcher.SanType.ValueType",
    matcher: string_pb2.StringMatcher,
) -> common_pb2.SubjectAltNameMatcher:
    return common_pb2.SubjectAltNameMatcher(san_type=san_type, matcher=matcher)


def _san_type(name: str) -> "common_pb2.SubjectAltNameMatcher.SanType.ValueType":
    kinds = common_pb2.SubjectAltNameMatcher
    if "://" in name:
        return kinds.URI
    if is_ip(name):
        return kinds.IP_ADDRESS
    return kinds.EMAIL if "@" in name else kinds.DNS


def _params(tls: ServerTlsSettings, defaults: MeshTls) -> common_pb2.TlsParameters | None:
    """Return versions and ciphers; None leaves them to Envoy, whose least is TLS 1.2."""
    params = _Params()
    if tls.mode is TlsMode.ISTIO_MUTUAL:
        params.tls_minimum_protocol_version = _Params.TLSv1_2
        params.tls_maximum_protocol_version = _Params.TLSv1_3
        return params
    if tls.min_protocol_version is not TlsProtocol.TLS_AUTO:
        params.tls_minimum_protocol_version = _VERSIONS[tls.min_protocol_version]
    elif defaults.min_protocol_version is not LeastTlsVersion.TLS_AUTO:
        params.tls_minimum_protocol_version = _LEAST[defaults.min_protocol_version]
    if tls.max_protocol_version is not TlsProtocol.TLS_AUTO:
        params.tls_maximum_protocol_version = _VERSIONS[tls.max_protocol_version]
    given = tls.cipher_suites or defaults.cipher_suites
    params.cipher_suites.extend(dict.fromkeys(each for each in given if each in CIPHERS))
    curves = tls.ecdh_curves or defaults.ecdh_curves
    params.ecdh_curves.extend(dict.fromkeys(each for each in curves if each in CURVES))
    return params if params.ByteSize() else None
