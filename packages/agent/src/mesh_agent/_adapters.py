"""Where the parts meet: an adapter gives one part's data the shape another part asks for."""

from collections.abc import AsyncIterator

import certclient
import mesh_sds

WORKLOAD_CERTIFICATE = "default"
TRUST_BUNDLE = "ROOTCA"


class CertificateSecrets:
    """The workload certificate and its trust bundle, under Istio's names for Envoy's secrets.

    When the certificate expires it is withdrawn. The trust bundle stays: it has not expired, and
    without it nobody's certificate could be checked.
    """

    def __init__(self, certificates: certclient.Certificates) -> None:
        self._certificates = certificates
        self._last_bundle_pem: bytes | None = None

    def get(self, name: str) -> mesh_sds.TlsCertificate | mesh_sds.TrustBundle | None:
        certificate = self._certificates.latest
        if name == WORKLOAD_CERTIFICATE and certificate is not None:
            return mesh_sds.TlsCertificate(
                chain_pem=certificate.chain_pem, private_key_pem=certificate.private_key_pem
            )
        if name == TRUST_BUNDLE:
            bundle_pem = certificate.trust_bundle_pem if certificate else self._last_bundle_pem
            return None if bundle_pem is None else mesh_sds.TrustBundle(roots_pem=bundle_pem)
        return None

    async def changes(self) -> AsyncIterator[frozenset[str]]:
        async for certificate in self._certificates.changes():
            changed = {WORKLOAD_CERTIFICATE}
            if certificate is not None and certificate.trust_bundle_pem != self._last_bundle_pem:
                self._last_bundle_pem = certificate.trust_bundle_pem
                changed.add(TRUST_BUNDLE)
            yield frozenset(changed)
