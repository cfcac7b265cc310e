"""What a leaf certificate must be to serve as a workload's, or as a file's that Envoy asks for.

The rules are those of RFC 5280 and of the X509-SVID standard of SPIFFE, sections 2 to 5; where they
are stricter than every TLS peer, the README's table says which way was chosen.
"""

from collections.abc import Set as AbstractSet

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from certclient._errors import CertificateRejected
from certclient.x509._chain_path import PathElement
from mesh_identity import SpiffeId

SERVER_AND_CLIENT = frozenset({ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH})
_USE_NAMES = {
    ExtendedKeyUsageOID.SERVER_AUTH: "serverAuth",
    ExtendedKeyUsageOID.CLIENT_AUTH: "clientAuth",
}


def check_svid(leaf: PathElement, spiffe_id: SpiffeId, *, further_names: bool) -> None:
    """Check a workload's certificate; raises CertificateRejected.

    further_names: its issuer may have put further names beside the SPIFFE id, of other kinds.
    """
    _check_identity(leaf, spiffe_id, further_names=further_names)
    if leaf.extension(x509.KeyUsage) is None:
        raise CertificateRejected(f"{leaf.name} has no key usage, digitalSignature is needed")
    check_workload(leaf)


def check_workload(leaf: PathElement) -> None:
    """Check a certificate that is shown as a server and as a client; raises CertificateRejected."""
    constraints = leaf.extension(x509.BasicConstraints)
    if constraints is not None and constraints.ca:
        raise CertificateRejected(
            f"{leaf.name} is a CA certificate (CA:TRUE), which must not identify a workload"
        )
    _check_usage(leaf)
    uses = _uses(leaf)
    if uses is not None and (missing := SERVER_AND_CLIENT - uses):
        raise CertificateRejected(
            f"{leaf.name} is not for use as server and client: its extended key usage has no "
            + " and no ".join(sorted(_USE_NAMES[each] for each in missing))
        )


def check_file_leaf(leaf: PathElement) -> None:
    """Check a certificate for one end of TLS at least; raises CertificateRejected.

    A self-signed one may be CA:TRUE, as `openssl req -x509` makes them: it vouches for nobody that
    does not trust it by itself.
    """
    constraints = leaf.extension(x509.BasicConstraints)
    self_signed = leaf.certificate.issuer == leaf.certificate.subject
    if constraints is not None and constraints.ca and not self_signed:
        raise CertificateRejected(
            f"{leaf.name} is a CA certificate (CA:TRUE) that another CA issued; its key signs "
            "certificates and does not belong where TLS is served"
        )
    _check_usage(leaf, self_signed=self_signed)
    uses = _uses(leaf)
    if uses is not None and not uses & {
        *SERVER_AND_CLIENT,
        ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    }:
        raise CertificateRejected(
            f"{leaf.name} is not for TLS: its extended key usage has neither serverAuth nor "
            "clientAuth"
        )


def _check_identity(leaf: PathElement, spiffe_id: SpiffeId, *, further_names: bool) -> None:
    names = leaf.extension(x509.SubjectAlternativeName)
    if names is None:
        raise CertificateRejected(
            f"{leaf.name} has no readable alternative name, {spiffe_id} is needed"
        )
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    if uris != [str(spiffe_id)]:
        shown = ", ".join(uri[:300] for uri in uris[:5]) or "no URI"
        raise CertificateRejected(f"{leaf.name} is for {shown}, not for {spiffe_id}")
    others = [name for name in names if not isinstance(name, x509.UniformResourceIdentifier)]
    if others and not further_names:
        shown = ", ".join(str(name.value)[:100] for name in others[:5])
        raise CertificateRejected(f"{leaf.name} is also for {shown}, which nobody asked for")


def _check_usage(leaf: PathElement, *, self_signed: bool = False) -> None:
    usage = leaf.extension(x509.KeyUsage)
    if usage is not None:
        if not usage.digital_signature:
            raise CertificateRejected(
                f"{leaf.name} may not be used for TLS: its key usage has no digitalSignature"
            )
        if (usage.key_cert_sign or usage.crl_sign) and not self_signed:
            raise CertificateRejected(
                f"{leaf.name} may sign certificates or revocation lists by its key usage, which "
                "no leaf may"
            )
    if leaf.extension(x509.TLSFeature) is not None:
        raise CertificateRejected(
            f"{leaf.name} asks for stapled OCSP answers (must-staple), and there are none to staple"
        )
    if leaf.extension(x509.NameConstraints) is not None:
        raise CertificateRejected(f"{leaf.name} has name constraints, which only CAs may have")


def _uses(leaf: PathElement) -> AbstractSet[x509.ObjectIdentifier] | None:
    uses = leaf.extension(x509.ExtendedKeyUsage)
    return frozenset(uses) if uses is not None else None
