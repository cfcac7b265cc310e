"""Which secrets of the control plane's a proxy may have.

They are private keys. A router gets those of its own namespace, which it has to prove over the
secure port; a sidecar those that DestinationRules for it name. Istio asks Kubernetes besides
whether the proxy's account may list Secrets.
"""

from collections.abc import Collection

from mesh_discovery.model._secrets import ROOTS_SUFFIX, NoSecret, SecretName, parse_secret_name
from mesh_discovery.plan._proxy import Proxy


def allowed_secret(
    text: str,
    proxy: Proxy,
    *,
    is_proven: bool,
    named_by_gateways: Collection[str] = (),
    named_by_rules: Collection[str] = (),
) -> SecretName | NoSecret:
    """Return the secret that a proxy asks for by name, if it may have it; else why not.

    is_proven: whether the proxy has shown that it is of its namespace. named_by_gateways: the
    names in its Gateways that the Gateway API has allowed for them. named_by_rules: the names of
    Secrets in DestinationRules for certain workloads, of which it is one.
    """
    name = parse_secret_name(text, proxy.namespace)
    if name is None:
        return NoSecret(reason="the name is not kubernetes:// and the name of a Secret")
    if proxy.is_sidecar and name.name.removesuffix(ROOTS_SUFFIX) not in named_by_rules:
        return NoSecret(
            reason="a sidecar is given only Secrets that a DestinationRule with a workloadSelector "
            "for it names"
        )
    if not is_proven:
        return NoSecret(
            reason="Secrets go over the secure port alone, to proxies that prove who they are; "
            "--plaintext-secrets lets them go over the plaintext port"
        )
    if name.by_gateway:
        if text not in named_by_gateways:
            return NoSecret(reason="none of its Gateways has this name")
    elif name.namespace != proxy.namespace:
        return NoSecret(
            reason=f"the Secret is of the namespace {name.namespace}, and the gateway is of "
            f"{proxy.namespace}"
        )
    return name
