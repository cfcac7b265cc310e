"""Where the parts meet: an adapter gives one part's data the shape another part asks for."""

from collections.abc import AsyncIterator
from typing import Protocol

from google.protobuf.message import DecodeError

import certclient
import mesh_sds
import xds_proxy
from mesh_agent._root_learning import CONFIGURATION
from mesh_identity import LearnedRoots
from mesh_protos import type_urls
from mesh_protos.proxy_config_pb2 import ProxyConfig

WORKLOAD_CERTIFICATE = "default"
TRUST_BUNDLE = "ROOTCA"


class CertificateSecrets:
    """The workload certificate and its trust bundle, under Istio's names for Envoy's secrets.

    When the certificate expires it is withdrawn. The trust bundle stays: it has not expired, and
    without it nobody's certificate could be checked.
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


class TrustBundleUpdates:
    """The roots that the control plane sends with the proxy's configuration.

    They come before the certificate authority signs by a new root, so that everyone trusts it in
    time; and they tell that it is time to ask for a certificate that leads to it.
    """

    type_url = type_urls.PROXY_CONFIG

    def __init__(
        self, certificates: certclient.TrustingCertificates, learned: LearnedRoots | None = None
    ) -> None:
        """learned: takes them for the agent's own connections."""
        self._certificates = certificates
        self._learned = learned
        self._announced = b""

    def take(self, response: bytes) -> None:
        """Trust them; raises `InterceptorRefused` for what is no certificate."""
        try:
            configs = [ProxyConfig.FromString(body) for body in xds_proxy.resource_bodies(response)]
            pems = "\n".join(pem for config in configs for pem in config.ca_certificates_pem)
            roots = pems.encode()
            if roots != self._announced and (self._announced or not self._is_known(roots)):
                self._certificates.set_anchors(roots)
                # The same roots in another order are news, too: the first is the one that signs.
                self._certificates.request_renewal()
        except (DecodeError, certclient.InvalidPem) as error:
            raise xds_proxy.InterceptorRefused(str(error)) from error
        self._announced = roots
        if self._learned is not None:
            self._learned.learn(CONFIGURATION, roots, whole=True)

    def _is_known(self, roots_pem: bytes) -> bool:
        """Whether these are the roots that came with the certificate, in whatever order."""
        certificate = self._certificates.latest
        known = certificate.trust_bundle_pem if certificate is not None else b""
        return _each(roots_pem) == _each(known)


class HoldsSockets(Protocol):
    """Holds the sockets that Envoy listens on, and must not hold those it closes."""

    def listeners_changing(self) -> None: ...

    def listeners_changed(self) -> None: ...


class ListenerChanges:
    """What the relay sees of listeners, told to the supervisor, which holds Envoy's sockets.

    envoy: set once it is started; before, nothing passes.
    """

    def __init__(self) -> None:
        self.envoy: HoldsSockets | None = None

    def passing(self, type_url: str) -> None:
        """Envoy is about to hear of other listeners."""
        if self.envoy is not None and type_url == type_urls.LISTENER:
            self.envoy.listeners_changing()

    def settled(self, type_url: str) -> None:
        """Envoy has them, or has refused them."""
        if self.envoy is not None and type_url == type_urls.LISTENER:
            self.envoy.listeners_changed()


def _each(pem: bytes) -> frozenset[bytes]:
    return frozenset(filter(None, pem.replace(b"\n", b"").split(b"-----END CERTIFICATE-----")))
