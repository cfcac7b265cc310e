"""The TLS of a gateway's servers; Sidecar has the same settings for what comes in.

Envoy refuses a listener for one wrong hash, and so for all servers of its port.

Source: Istio's API, networking/v1, and its validation.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from enum import StrEnum

from istio_config.kinds.fields import SpecFields, Text
from mesh_configfile.shapes import Finding


class TlsMode(StrEnum):
    """How a server treats TLS."""

    PASSTHROUGH = "PASSTHROUGH"
    SIMPLE = "SIMPLE"
    MUTUAL = "MUTUAL"
    AUTO_PASSTHROUGH = "AUTO_PASSTHROUGH"
    ISTIO_MUTUAL = "ISTIO_MUTUAL"
    OPTIONAL_MUTUAL = "OPTIONAL_MUTUAL"

    @property
    def terminates(self) -> bool:
        """Whether the router itself is the server of the TLS handshake."""
        return self not in (TlsMode.PASSTHROUGH, TlsMode.AUTO_PASSTHROUGH)

    @property
    def asks_for_client_certificates(self) -> bool:
        """Whether a client's certificate is validated by roots of the server's own settings."""
        return self in (TlsMode.MUTUAL, TlsMode.OPTIONAL_MUTUAL)


class TlsProtocol(StrEnum):
    """A version of TLS."""

    TLS_AUTO = "TLS_AUTO"
    TLSV1_0 = "TLSV1_0"
    TLSV1_1 = "TLSV1_1"
    TLSV1_2 = "TLSV1_2"
    TLSV1_3 = "TLSV1_3"


class ServerCertificate(SpecFields, frozen=True):
    """One of several certificates of a server, as files at the router."""

    server_certificate: str = ""
    private_key: str = ""
    ca_certificates: str = ""


class ServerTlsSettings(SpecFields, frozen=True):
    """The TLS settings of a server."""

    https_redirect: bool = False
    mode: TlsMode = TlsMode.PASSTHROUGH
    server_certificate: str = ""
    private_key: str = ""
    ca_certificates: str = ""
    ca_crl: str = ""
    credential_name: str = ""
    credential_names: tuple[Text, ...] = ()
    ca_cert_credential_name: str = ""
    tls_certificates: tuple[ServerCertificate, ...] = ()
    subject_alt_names: tuple[Text, ...] = ()
    verify_certificate_spki: tuple[Text, ...] = ()
    verify_certificate_hash: tuple[Text, ...] = ()
    min_protocol_version: TlsProtocol = TlsProtocol.TLS_AUTO
    max_protocol_version: TlsProtocol = TlsProtocol.TLS_AUTO
    cipher_suites: tuple[Text, ...] = ()
    ecdh_curves: tuple[Text, ...] = ()
    insecure_skip_verify: bool = False

    @property
    def only_redirects(self) -> bool:
        """Whether nothing but `httpsRedirect` is set, as on plain HTTP servers."""
        return self == ServerTlsSettings(https_redirect=True)

    @property
    def credentials(self) -> tuple[str, ...]:
        """The names of the secrets that hold the server's certificates."""
        return self.credential_names or ((self.credential_name,) if self.credential_name else ())


CIPHERS = frozenset(
    {
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "ECDHE-RSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "ECDHE-RSA-AES256-GCM-SHA384",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "ECDHE-RSA-CHACHA20-POLY1305",
        "ECDHE-ECDSA-AES128-SHA",
        "ECDHE-RSA-AES128-SHA",
        "ECDHE-ECDSA-AES256-SHA",
        "ECDHE-RSA-AES256-SHA",
        "AES128-GCM-SHA256",
        "AES256-GCM-SHA384",
        "AES128-SHA",
        "AES256-SHA",
    }
)
"""The cipher suites below TLS 1.3 that Envoy knows."""
CURVES = ("P-256", "P-384", "P-521", "X25519", "X25519MLKEM768")
"""The curves that BoringSSL, Envoy's TLS library, has, of those in use."""
MOST_CERTIFICATES = 2
"""Istio's bound on certificates of one server: one with an RSA key, one with an ECDSA key."""
_HASH = re.compile(r"(?:[0-9a-fA-F]{2}:?){31}[0-9a-fA-F]{2}")
_VERSIONS = tuple(TlsProtocol)
_OLD = (TlsProtocol.TLSV1_0, TlsProtocol.TLSV1_1)
_FILES = ("server_certificate", "private_key", "ca_certificates", "ca_crl")


def server_tls_mistakes(tls: ServerTlsSettings) -> Iterator[Finding]:
    """Yield what is wrong with the settings of a server that speaks TLS; paths start below them."""
    match tls.mode:
        case TlsMode.SIMPLE | TlsMode.MUTUAL | TlsMode.OPTIONAL_MUTUAL:
            yield from _source_mistakes(tls)
            yield from _certificate_mistakes(tls)
            yield from _root_mistakes(tls)
        case TlsMode.ISTIO_MUTUAL:
            for name in _given(tls):
                yield (name,), "mode ISTIO_MUTUAL uses the router's own certificate: remove this"
        case TlsMode.PASSTHROUGH | TlsMode.AUTO_PASSTHROUGH:
            pass  # server_tls_warnings says that certificates have no effect there
    low, high = tls.min_protocol_version, tls.max_protocol_version
    if TlsProtocol.TLS_AUTO not in (low, high) and _VERSIONS.index(low) > _VERSIONS.index(high):
        yield ("minProtocolVersion",), f"{low} is above maxProtocolVersion {high}"
    if low is TlsProtocol.TLS_AUTO and high in _OLD:
        yield ("maxProtocolVersion",), f"{high} needs minProtocolVersion, which is TLSV1_2 else"
    for index, text in enumerate(tls.verify_certificate_spki):
        if not _is_spki(text):
            yield (
                ("verifyCertificateSpki", index),
                "is not a SHA-256 hash in base64, which has 44 characters",
            )
    for index, text in enumerate(tls.verify_certificate_hash):
        if not _HASH.fullmatch(text) or (":" in text and len(text) != 95):
            yield (
                ("verifyCertificateHash", index),
                "is not a SHA-256 hash in hexadecimal: 64 digits, or 32 pairs with colons between",
            )


def _source_mistakes(tls: ServerTlsSettings) -> Iterator[Finding]:
    sources = [
        name
        for name, given in (
            ("credentialName", tls.credential_name),
            ("credentialNames", tls.credential_names),
            ("tlsCertificates", tls.tls_certificates),
            ("serverCertificate", tls.server_certificate or tls.private_key),
        )
        if given
    ]
    for field, name in (
        *((("credentialName",), each) for each in (tls.credential_name,)),
        *((("credentialNames", at), each) for at, each in enumerate(tls.credential_names)),
        (("caCertCredentialName",), tls.ca_cert_credential_name),
    ):
        if "/" in name:
            yield field, f'"{name}" is not the name of a Secret; write that alone'
    if not sources:
        yield (
            ("mode",),
            (
                f"{tls.mode} needs a certificate: give credentialName, or serverCertificate and "
                "privateKey"
            ),
        )
    if len(sources) > 1:
        yield (
            (sources[1],),
            f"stands beside {sources[0]}: a server takes its certificates from one of them",
        )


def _certificate_mistakes(tls: ServerTlsSettings) -> Iterator[Finding]:
    if tls.server_certificate and not tls.private_key:
        yield ("privateKey",), "is missing beside serverCertificate"
    if tls.private_key and not tls.server_certificate:
        yield ("serverCertificate",), "is missing beside privateKey"
    for index, each in enumerate(tls.tls_certificates):
        for name, value in (
            ("serverCertificate", each.server_certificate),
            ("privateKey", each.private_key),
        ):
            if not value:
                yield ("tlsCertificates", index, name), "is missing"


def _root_mistakes(tls: ServerTlsSettings) -> Iterator[Finding]:
    by_secret = bool(tls.credentials or tls.ca_cert_credential_name)
    if tls.credentials and tls.ca_certificates:
        yield (
            ("caCertificates",),
            "stands beside credentialName: the secret holds the CA certificates",
        )
    if tls.ca_cert_credential_name and tls.ca_certificates:
        yield ("caCertificates",), "stands beside caCertCredentialName: keep one of the two"
    if tls.mode.asks_for_client_certificates and not tls.insecure_skip_verify:
        of_files = tls.ca_certificates or any(e.ca_certificates for e in tls.tls_certificates)
        if not by_secret and not of_files:
            yield (
                ("caCertificates",),
                f"is missing: {tls.mode} checks clients' certificates by it",
            )
    if tls.ca_crl and tls.mode is TlsMode.SIMPLE:
        yield ("caCrl",), "mode SIMPLE asks clients for no certificate that could be revoked"
    elif tls.ca_crl and by_secret:
        yield ("caCrl",), "stands beside a secret, which holds the list in its key ca.crl"


def _given(tls: ServerTlsSettings) -> Iterator[str]:
    """Yield the names of the fields that are given of those about certificates and roots."""
    named = (*_FILES, "credential_name", "credential_names", "tls_certificates")
    for name in (*named, "ca_cert_credential_name"):
        if getattr(tls, name):
            first, *others = name.split("_")
            yield first + "".join(each.capitalize() for each in others)


def _is_spki(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == 32
    except binascii.Error:
        return False


def server_tls_warnings(tls: ServerTlsSettings) -> Iterator[Finding]:
    """Yield what has no effect, or probably another one than is meant; paths start below."""
    if not tls.mode.terminates:
        for name in _given(tls):
            yield (name,), f"has no effect in mode {tls.mode}, which does not end TLS"
    if len(tls.credential_names) > MOST_CERTIFICATES or (
        len(tls.tls_certificates) > MOST_CERTIFICATES
    ):
        name = "credentialNames" if tls.credential_names else "tlsCertificates"
        yield (name,), "has three or more certificates: only the first two are used"
    yield from _cipher_warnings(tls)
    if tls.min_protocol_version in _OLD and not tls.cipher_suites:
        yield (
            ("minProtocolVersion",),
            (
                f"{tls.min_protocol_version} needs cipherSuites that clients of it know; without "
                "them the least is in effect TLSV1_2"
            ),
        )
    if not tls.mode.asks_for_client_certificates:
        for name, given in (
            ("subjectAltNames", tls.subject_alt_names and tls.mode is not TlsMode.ISTIO_MUTUAL),
            ("verifyCertificateSpki", tls.verify_certificate_spki),
            ("verifyCertificateHash", tls.verify_certificate_hash),
            ("insecureSkipVerify", tls.insecure_skip_verify),
        ):
            if given:
                yield (
                    (name,),
                    f"has no effect in mode {tls.mode}: clients are not checked by it",
                )


def _cipher_warnings(tls: ServerTlsSettings) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, cipher in enumerate(tls.cipher_suites):
        if cipher not in CIPHERS:
            yield ("cipherSuites", index), f'"{cipher}" is not known to Envoy: it is left out'
        elif cipher in seen:
            yield ("cipherSuites", index), f'"{cipher}" stands there twice'
        seen.add(cipher)
    for index, curve in enumerate(tls.ecdh_curves):
        if curve not in CURVES:  # Envoy refuses the listener for one
            yield (
                ("ecdhCurves", index),
                f'"{curve}" is not known to Envoy, and is left out; known: {", ".join(CURVES)}',
            )
