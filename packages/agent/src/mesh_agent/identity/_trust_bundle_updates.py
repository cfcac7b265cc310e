"""Takes the roots that the control plane announces out of the configuration stream."""

import certclient
import xds_proxy
from mesh_agent.identity._learned_roots import CONFIGURATION
from mesh_identity import LearnedRoots
from mesh_protowire import WireError, values_of

_CA_CERTIFICATES_PEM = 34  # of istio.mesh.v1alpha1.ProxyConfig


class TrustBundleUpdates:
    """Trusts the roots that the control plane sends with the proxy's configuration.

    A new root comes before the certificate authority signs by it, so that every workload trusts it
    in time. When it comes, the agent also asks for a certificate that leads to it.
    """

    def __init__(
        self, certificates: certclient.TrustingCertificates, learned: LearnedRoots | None = None
    ) -> None:
        """learned: keeps the roots for the agent's own connections."""
        self._certificates = certificates
        self._learned = learned
        self._announced = b""

    def apply(self, response: bytes) -> None:
        """Trust the roots in a response; raises `InterceptorRefused` if one is no certificate."""
        try:
            roots = _roots_in(response)
            if roots != self._announced and (self._announced or not self._is_known(roots)):
                self._certificates.set_anchors(roots)
                # Another order of the same roots is a change: the first is the one that signs.
                self._certificates.request_renewal()
        except (WireError, certclient.InvalidPem) as error:
            raise xds_proxy.InterceptorRefused(str(error)) from error
        self._announced = roots
        if self._learned is not None:
            self._learned.learn(CONFIGURATION, roots, complete=True)

    def apply_saved(self, response: bytes) -> None:
        """Trust the roots of an earlier run for peers, and learn none: these came from the disk.

        Raises `InterceptorRefused`.
        """
        try:
            roots = _roots_in(response)
            if not self._announced and not self._is_known(roots):
                self._certificates.set_anchors(roots)
        except (WireError, certclient.InvalidPem) as error:
            raise xds_proxy.InterceptorRefused(str(error)) from error

    def _is_known(self, roots_pem: bytes) -> bool:
        """Return whether these are the roots that came with the certificate, in any order."""
        certificate = self._certificates.latest
        known = certificate.trust_bundle_pem if certificate is not None else b""
        return _each(roots_pem) == _each(known)


def _roots_in(response: bytes) -> bytes:
    bodies = xds_proxy.resource_bodies(response)
    return b"\n".join(pem for body in bodies for pem in values_of(body, _CA_CERTIFICATES_PEM))


def _each(pem: bytes) -> frozenset[bytes]:
    return frozenset(filter(None, pem.replace(b"\n", b"").split(b"-----END CERTIFICATE-----")))
