"""Gives the rotated workload certificate the shape of the secrets that the SDS server serves."""

from collections.abc import AsyncIterator

import certclient
import mesh_sds

WORKLOAD_CERTIFICATE = "default"
TRUST_BUNDLE = "ROOTCA"


class CertificateSecrets:
    """The workload certificate and its trust bundle, under Istio's names for Envoy's secrets.

    When the certificate expires it is withdrawn. The trust bundle stays: it has not expired, and
    without it no peer's certificate could be checked.
    """

    def __init__(self, certificates: certclient.Certificates) -> None:
        self._certificates = certificates
        self._last_bundle: mesh_sds.TrustBundle | None = None

    def get(self, name: str) -> mesh_sds.TlsCertificate | mesh_sds.TrustBundle | None:
        certificate = self._certificates.latest
        if name == WORKLOAD_CERTIFICATE and certificate is not None:
            return mesh_sds.TlsCertificate(
                chain_pem=certificate.chain_pem, private_key_pem=certificate.private_key_pem
            )
        if name == TRUST_BUNDLE:
            return _bundle(certificate) if certificate is not None else self._last_bundle
        return None

    async def changes(self) -> AsyncIterator[frozenset[str]]:
        async for certificate in self._certificates.changes():
            changed = {WORKLOAD_CERTIFICATE}
            if certificate is not None and _bundle(certificate) != self._last_bundle:
                self._last_bundle = _bundle(certificate)
                changed.add(TRUST_BUNDLE)
            yield frozenset(changed)


def _bundle(certificate: certclient.Certificate) -> mesh_sds.TrustBundle:
    return mesh_sds.TrustBundle(roots_pem=certificate.trust_bundle_pem, crl_pem=certificate.crl_pem)
