"""The secrets that proxies get, as resources that are created once."""

from envoy_config._accounts import accounts_in
from envoy_config.context._cache import Cache
from envoy_config.generate.gateway._secrets import secret
from envoy_config.plan._proxy import Proxy
from envoy_config.plan.gateway._account_workloads import AccountWorkload, account_workloads
from envoy_config.plan.gateway._secret_access import NamedSecrets, allowed_secret, named_secrets
from envoy_config.plan.gateway._target_ports import served_hosts
from mesh_model import MeshModel
from mesh_model.secrets import KeyPair, NoSecret, Roots, SecretName
from xds_server import Resource

_Accounts = tuple[str, frozenset[str]]
"""Of one namespace."""


class GatewaySecrets:
    """Finds the secrets of one model's routers, and keeps their resources."""

    def __init__(self, model: MeshModel) -> None:
        self._model = model
        self._found = Cache[SecretName, KeyPair | Roots | NoSecret]()
        self._resources = Cache[tuple[str, SecretName], Resource]()
        self._named = Cache[_Accounts, NamedSecrets]()

    def find(
        self, text: str, proxy: Proxy, identities: tuple[str, ...], *, believed: bool = False
    ) -> KeyPair | Roots | NoSecret:
        """Return what a proxy gets for a name, or why nothing.

        identities: those that it has proved. believed: without any, it is whom its node says.
        """
        name = self._allowed(text, proxy, identities, believed=believed)
        return name if isinstance(name, NoSecret) else self._content(name)

    def resource(
        self, text: str, proxy: Proxy, identities: tuple[str, ...], *, believed: bool = False
    ) -> Resource | NoSecret:
        """Return the resource that a proxy gets for a name, or why none."""
        name = self._allowed(text, proxy, identities, believed=believed)
        if isinstance(name, NoSecret):
            return name
        content = self._content(name)
        if isinstance(content, NoSecret):
            return content
        return self._resources.get((text, name), lambda _: _pack(text, content))

    def _allowed(
        self, text: str, proxy: Proxy, identities: tuple[str, ...], *, believed: bool
    ) -> SecretName | NoSecret:
        accounts = accounts_in(proxy.namespace, identities)
        named: NamedSecrets | None = None
        if accounts:
            named = self._named.get((proxy.namespace, accounts), self._find_named)
        elif believed and not identities:
            own = AccountWorkload(
                proxy.namespace,
                proxy.service_account,
                proxy.labels,
                served_hosts(proxy, self._model),
            )
            named = named_secrets(self._model, proxy.namespace, (own,))
        return allowed_secret(text, proxy, named, accounts=accounts)

    def _find_named(self, key: _Accounts) -> NamedSecrets:
        namespace, accounts = key
        workloads = account_workloads(self._model, namespace, accounts)
        return named_secrets(self._model, namespace, workloads)

    def _content(self, name: SecretName) -> KeyPair | Roots | NoSecret:
        return self._found.get(name, self._model.secrets.find)


def _pack(text: str, content: KeyPair | Roots) -> Resource:
    return Resource.pack(secret(text, content), name=text)
