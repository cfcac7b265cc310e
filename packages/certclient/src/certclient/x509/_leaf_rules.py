"""The rules for leaf certificates: of workloads, and of other pairs in files that Envoy requests.

The rules are those of RFC 5280 and of SPIFFE's X509-SVID standard, sections 2 to 5. The README's
table has them, also where TLS peers are less strict.
"""

from collections.abc import Set as AbstractSet

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from certclient._errors import CertificateRejected
from certclient.x509._chain_path import PathElement
from mesh_identity import SpiffeId

SERVER_AND_CLIENT = frozenset({ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH})
_PURPOSE_NAMES = {
    ExtendedKeyUsageOID.SERVER_AUTH: "serverAuth",
    ExtendedKeyUsageOID.CLIENT_AUTH: "clientAuth",
}


def check_svid(leaf: PathElement, spiffe_id: SpiffeId, *, further_names: bool) -> None:
    """Check a workload's certificate; raises CertificateRejected.

    further_names: whether the leaf may have names of other kinds besides the SPIFFE id.
    """
    _check_identity(leaf, spiffe_id, further_names=further_names)
    if leaf.extension(x509.KeyUsage) is None:
        raise CertificateRejected(f"{leaf.name} has no key usage, digitalSignature is needed")
    check_workload(leaf)


def check_workload(leaf: PathElement) -> None:
    """Check a certificate for use as server and as client; raises CertificateRejected."""
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
            + " and no ".join(sorted(_PURPOSE_NAMES[each] for each in missing))
        )


def check_pair_leaf(leaf: PathElement) -> None:
    """Check a certificate for use as server or as client; raises CertificateRejected.

    A self-signed one may be CA:TRUE, as `openssl req -x509` makes it: only peers that trust this
    very certificate accept anything it signs.
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
        raise CertificateRejected(f"{leaf.name} is also for {shown}, which was not requested")


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
