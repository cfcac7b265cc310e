"""The one resource of Istio's proxy config type (PCDS), for agents: roots, and settings of starts.

The root that signs now comes first. A workload that receives another bundle than its certificate
came with asks for a new certificate; so all get new keys when a root is replaced.

Beside the roots stands how the ProxyConfigs for the proxy want it to be started. Istio's control
plane sends the roots alone; an agent that is up can tell by the rest that it was started otherwise.
"""

from collections.abc import Callable

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from envoy_config import Proxy, workload_of
from envoy_config.changes import Changed, Part
from istio_config.kinds.proxy_config import PROXY_CONFIG
from mesh_discovery.push._affected import touches
from mesh_discovery.push._served_context import ServedContext
from mesh_model import MeshModel
from mesh_model.proxy_configs import NO_SETTINGS, StartSettings, proxy_configs_for
from mesh_protos import proxy_config_pb2
from xds_server import Client, ConfigKey, Generated, PushRequest, Resource, Watch

NAME = "default"
_MOST_KEPT = 1024


def trust_bundle_changed() -> PushRequest:
    """Return the request for a push of a new bundle alone."""
    return PushRequest(
        incremental=True,
        configs_updated=frozenset({ConfigKey(Changed.TRUST_BUNDLE, NAME, "")}),
        triggers=("trust bundle",),
    )


class ProxyConfigGenerator:
    """Makes the one resource of its type; proxies that are to be started alike have the same."""

    def __init__(self, served: ServedContext, bundle_pem: Callable[[], bytes]) -> None:
        self._served = served
        self._bundle_pem = bundle_pem
        self._pem = b""
        self._roots: list[str] = []
        self._kept: dict[StartSettings, Resource] = {}
        """Those with these roots."""

    def generate(
        self,
        client: Client[Proxy],
        watch: Watch,  # noqa: ARG002
        push: PushRequest | None,
    ) -> Generated | None:
        proxy, context = client.context, self._served.current
        if push is not None and not touches(push, Part.PROXY_CONFIG, proxy, context):
            return None
        return Generated(resources=(self._resource(start_settings(proxy, context.model)),))

    def _resource(self, settings: StartSettings) -> Resource:
        pem = self._bundle_pem()
        if self._pem != pem:
            certificates = x509.load_pem_x509_certificates(pem)
            self._roots = [each.public_bytes(Encoding.PEM).decode() for each in certificates]
            self._pem, self._kept = pem, {}
        found = self._kept.get(settings)
        if found is None:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            message = proxy_config_pb2.ProxyConfig(
                ca_certificates_pem=self._roots, proxy_metadata=dict(settings.variables)
            )
            if settings.concurrency is not None:
                message.concurrency.value = settings.concurrency
            found = self._kept[settings] = Resource.pack(message, name=NAME)
        return found


def start_settings(proxy: Proxy, model: MeshModel) -> StartSettings:
    """Return how a proxy is to be started; nothing for one that has not proved its namespace."""
    if not model.workload_rules.has(PROXY_CONFIG):
        return NO_SETTINGS
    found = proxy_configs_for(
        model.workload_rules,
        workload_of(proxy, model),
        root_namespace=model.mesh_config.root_namespace,
    )
    return found.settings
