"""The secrets that proxies get, as resources that are made once."""

from collections.abc import Collection

from mesh_discovery.generate.gateway._secrets import secret
from mesh_discovery.model._gateways import Gateway
from mesh_discovery.model._model import MeshModel
from mesh_discovery.model._secrets import (
    OF_GATEWAY,
    ROOTS_SUFFIX,
    KeyPair,
    NoSecret,
    Roots,
    SecretName,
)
from mesh_discovery.plan._proxy import Proxy
from mesh_discovery.plan.gateway._secret_access import allowed_secret
from mesh_discovery.push.context._cache import Cache
from mesh_discovery.push.context._routers import Routers
from xds_server import Resource


class GatewaySecrets:
    """Finds the secrets of one model's routers, and keeps their resources."""

    def __init__(self, model: MeshModel, routers: Routers) -> None:
        self._model = model
        self._routers = routers
        self._found = Cache[SecretName, KeyPair | Roots | NoSecret]()
        self._resources = Cache[tuple[str, SecretName], Resource | None]()

    def find(self, text: str, proxy: Proxy, *, is_proven: bool) -> KeyPair | Roots | NoSecret:
        """Return what a proxy gets for a name, or why nothing."""
        name = self._allowed(text, proxy, is_proven=is_proven)
        return name if isinstance(name, NoSecret) else self._content(name)

    def resource(self, text: str, proxy: Proxy, *, is_proven: bool) -> Resource | None:
        """Return the resource that a proxy gets for a name, if it gets one."""
        name = self._allowed(text, proxy, is_proven=is_proven)
        if isinstance(name, NoSecret):
            return None
        return self._resources.get((text, name), self._make)

    def _allowed(self, text: str, proxy: Proxy, *, is_proven: bool) -> SecretName | NoSecret:
        gateways = self._routers.gateways(proxy) if text.startswith(OF_GATEWAY) else ()
        rules: frozenset[str] = frozenset()
        if proxy.is_sidecar:
            found = self._model.destination_rules
            rules = found.credentials_for(proxy.namespace, proxy.labels)
        return allowed_secret(
            text,
            proxy,
            is_proven=is_proven,
            named_by_gateways=frozenset(_names(gateways)),
            named_by_rules=rules,
        )

    def _content(self, name: SecretName) -> KeyPair | Roots | NoSecret:
        return self._found.get(name, self._model.secrets.find)

    def _make(self, key: tuple[str, SecretName]) -> Resource | None:
        text, name = key
        content = self._content(name)
        if isinstance(content, NoSecret):
            return None
        return Resource.pack(secret(text, content), name=text)


def _names(gateways: Collection[Gateway]) -> set[str]:
    """Return the names of secrets that Gateways have from the Gateway API, and of their roots."""
    tls = [
        each.tls for gateway in gateways for each in gateway.spec.servers if each.tls is not None
    ]
    found = {name for each in tls for name in (*each.credentials, each.ca_cert_credential_name)}
    found = {each for each in found if each.startswith(OF_GATEWAY)}
    return found | {f"{each}{ROOTS_SUFFIX}" for each in found}
