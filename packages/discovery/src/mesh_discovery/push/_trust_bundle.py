"""The trust bundle over xDS, in Istio's proxy config type, so that workloads follow new roots.

The root that signs now comes first. A workload that receives another bundle than its certificate
came with asks for a new certificate; so all get new keys when a root is replaced.
"""

from collections.abc import Callable

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from envoy_config import Proxy
from envoy_config.changes import Changed
from mesh_protos import proxy_config_pb2
from xds_server import Client, ConfigKey, Generated, PushRequest, Resource, Watch

NAME = "default"


def trust_bundle_changed() -> PushRequest:
    """Return the request for a push of a new bundle alone."""
    return PushRequest(
        incremental=True,
        configs_updated=frozenset({ConfigKey(Changed.TRUST_BUNDLE, NAME, "")}),
        triggers=("trust bundle",),
    )


class TrustBundleGenerator:
    """Makes the one resource of its type: a proxy config with the roots alone."""

    def __init__(self, bundle_pem: Callable[[], bytes]) -> None:
        self._bundle_pem = bundle_pem
        self._newest: tuple[bytes, Resource] | None = None

    def generate(
        self,
        client: Client[Proxy],  # noqa: ARG002
        watch: Watch,  # noqa: ARG002
        push: PushRequest | None,
    ) -> Generated | None:
        if push is not None and push.configs_updated and not _is_about_the_bundle(push):
            return None
        return Generated(resources=(self._resource(),))

    def _resource(self) -> Resource:
        pem = self._bundle_pem()
        if self._newest is None or self._newest[0] != pem:
            roots = [
                root.public_bytes(Encoding.PEM).decode()
                for root in x509.load_pem_x509_certificates(pem)
            ]
            message = proxy_config_pb2.ProxyConfig(ca_certificates_pem=roots)
            self._newest = (pem, Resource.pack(message, name=NAME))
        return self._newest[1]


def _is_about_the_bundle(push: PushRequest) -> bool:
    return any(key.kind == Changed.TRUST_BUNDLE for key in push.configs_updated)
