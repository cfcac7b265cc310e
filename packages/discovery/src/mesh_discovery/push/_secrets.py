"""The secrets of gateways over xDS: certificates and keys, by the names in their listeners.

A name without a secret is not answered. The router's listener goes on without it after a while, and
takes the secret when it comes, which is pushed to it alone.
"""

import logging
import time
from collections.abc import Callable

from envoy_config import Proxy
from envoy_config.changes import Changed
from mesh_discovery.push._served_context import ServedContext
from mesh_lifecycle import RepeatLog
from mesh_model.secrets import NoSecret, parse_secret_name, secrets_of
from xds_server import Client, Generated, PushRequest, Resource, Watch

log = logging.getLogger(__name__)

_QUIET_S = 600.0


class SecretsGenerator:
    """Makes the secrets that a router asks for and may have."""

    def __init__(
        self,
        served: ServedContext,
        *,
        over_plaintext: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """over_plaintext: proxies that prove nothing get secrets too, by what their nodes say."""
        self._served = served
        self._over_plaintext = over_plaintext
        self._lacking = RepeatLog(log, "secret not given", quiet_s=_QUIET_S, now=monotonic)

    def generate(
        self, client: Client[Proxy], watch: Watch, push: PushRequest | None
    ) -> Generated | None:
        """Return the secrets of these names; one that can't be had is left out."""
        proxy, names = client.context, watch.names
        if push is not None:
            names = frozenset(each for each in names if _depends(each, proxy, push))
            if not names:
                return None
        secrets = self._served.current.secrets
        found = []
        for each in sorted(names):
            resource = secrets.resource(
                each, proxy, client.identities, believed=self._over_plaintext
            )
            account = f"{client.identities} {each[:256]}"
            if isinstance(resource, NoSecret):
                facts = {"node": proxy.id, "secret": each[:256]}
                self._lacking.happened(account, reason=resource.reason, facts=facts)
            else:
                self._lacking.ended(account)
                found.append(resource)
        return Generated(resources=tuple(found))

    def found(
        self, proxy: Proxy, identities: tuple[str, ...], names: frozenset[str]
    ) -> list[Resource]:
        """Return the secrets of these names that a proxy is given, keys and all."""
        secrets = self._served.current.secrets
        answers = (
            secrets.resource(each, proxy, identities, believed=self._over_plaintext)
            for each in sorted(names)
        )
        return [each for each in answers if not isinstance(each, NoSecret)]

    def not_served(
        self, proxy: Proxy, identities: tuple[str, ...], names: frozenset[str]
    ) -> list[tuple[str, str]]:
        """Return the names that a proxy gets nothing for, each with the reason."""
        secrets = self._served.current.secrets
        found = (
            (each, secrets.find(each, proxy, identities, believed=self._over_plaintext))
            for each in sorted(names)
        )
        return [(each, answer.reason) for each, answer in found if isinstance(answer, NoSecret)]


def _depends(text: str, proxy: Proxy, push: PushRequest) -> bool:
    """Return whether a push may be about a name."""
    name = parse_secret_name(text, proxy.namespace)
    if name is None:
        return False
    changed = {
        (key.namespace, key.name) for key in push.configs_updated if key.kind == Changed.SECRET
    }
    return not push.configs_updated or not secrets_of(name).isdisjoint(changed)
