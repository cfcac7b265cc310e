"""The secrets of gateways over xDS: certificates and keys, by the names in their listeners.

A name without a secret is not answered. The router's listener goes on without it after a while, and
takes the secret when it comes, which is pushed to it alone.
"""

from mesh_discovery.model._secrets import NoSecret, parse_secret_name, secrets_of
from mesh_discovery.plan._proxy import Proxy
from mesh_discovery.push._changes import SECRET
from mesh_discovery.push._served_context import ServedContext
from xds_server import Client, Generated, PushRequest, Watch


class SecretsGenerator:
    """Makes the secrets that a router asks for and may have."""

    def __init__(self, served: ServedContext, *, over_plaintext: bool = False) -> None:
        """over_plaintext: proxies that prove nothing get secrets too."""
        self._served = served
        self._over_plaintext = over_plaintext

    def generate(
        self, client: Client[Proxy], watch: Watch, push: PushRequest | None
    ) -> Generated | None:
        """Return the secrets of these names; one that can't be had is left out."""
        proxy, names = client.context, watch.names
        if push is not None:
            names = frozenset(each for each in names if _depends(each, proxy, push))
            if not names:
                return None
        context = self._served.current
        found = (
            context.secrets.resource(each, proxy, is_proven=self._is_proven(client.identities))
            for each in sorted(names)
        )
        return Generated(resources=tuple(each for each in found if each is not None))

    def not_served(
        self, proxy: Proxy, identities: tuple[str, ...], names: frozenset[str]
    ) -> list[tuple[str, str]]:
        """Return the names that a proxy gets nothing for, each with the reason."""
        secrets = self._served.current.secrets
        is_proven = self._is_proven(identities)
        found = ((each, secrets.find(each, proxy, is_proven=is_proven)) for each in sorted(names))
        return [(each, answer.reason) for each, answer in found if isinstance(answer, NoSecret)]

    def _is_proven(self, identities: tuple[str, ...]) -> bool:
        # One of the identities is of the proxy's namespace, or it was not admitted.
        return bool(identities) or self._over_plaintext


def _depends(text: str, proxy: Proxy, push: PushRequest) -> bool:
    """Tell whether a push may be about a name."""
    name = parse_secret_name(text, proxy.namespace)
    if name is None:
        return False
    changed = {(key.namespace, key.name) for key in push.configs_updated if key.kind == SECRET}
    return not push.configs_updated or not secrets_of(name).isdisjoint(changed)
