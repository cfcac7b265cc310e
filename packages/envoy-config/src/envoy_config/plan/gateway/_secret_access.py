"""Which secrets of the control plane's a proxy may have.

They are private keys. A proxy gets those that a Gateway or a DestinationRule names for a workload
of the service account that it has proved to be. The labels of that workload are those that the
configuration knows it by: a node's own are its word alone. Istio asks Kubernetes whether the
proxy's account may list Secrets.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from envoy_config.plan._proxy import Proxy
from envoy_config.plan.gateway._account_workloads import AccountWorkload
from mesh_model import Gateway, MeshModel
from mesh_model.secrets import (
    CONFIG_MAP,
    NoSecret,
    SecretName,
    credential,
    credential_roots,
    parse_secret_name,
)


class NamedSecrets(NamedTuple):
    """The names, as Envoys ask for them, that objects have for some workloads.

    of_routers: by Gateways that select one of them, and by DestinationRules for such routers.
    of_sidecars: by DestinationRules with a workloadSelector for one of them.
    """

    of_routers: frozenset[str] = frozenset()
    of_sidecars: frozenset[str] = frozenset()


def named_secrets(
    model: MeshModel, namespace: str, workloads: Collection[AccountWorkload]
) -> NamedSecrets:
    """Return the names of secrets that a mesh has for workloads of a namespace."""
    rules = model.destination_rules
    of_sidecars = frozenset(
        name
        for each in workloads
        for given in rules.credentials_for(namespace, each.labels)
        for name in (credential(given), credential_roots(given))
    )
    for_all = rules.credentials_for_all(namespace)
    # Roots of ConfigMaps are no secret: who speaks to a service validates it by them.
    roots = frozenset(credential_roots(each) for each in for_all if each.startswith(CONFIG_MAP))
    gateways = {
        gateway.key: gateway
        for each in workloads
        for gateway in model.gateways.of_router(namespace, each.labels, each.hosts)
        if names_its_routers(gateway, namespace)
    }
    if not gateways:
        return NamedSecrets(of_routers=roots, of_sidecars=of_sidecars | roots)
    outbound = (name for each in for_all for name in (credential(each), credential_roots(each)))
    return NamedSecrets(
        of_routers=of_sidecars.union(_of_gateways(gateways.values()), outbound),
        of_sidecars=of_sidecars | roots,
    )


def allowed_secret(
    text: str, proxy: Proxy, named: NamedSecrets | None, *, accounts: Collection[str] = ()
) -> SecretName | NoSecret:
    """Return the secret that a proxy asks for by name, if it may have it; else why not.

    named: for the workloads that it has shown to be; None: it has shown nothing. accounts: those
    that it has shown.
    """
    name = parse_secret_name(text, proxy.namespace)
    if name is None:
        return NoSecret(reason="the name is not kubernetes:// and the name of a Secret")
    if named is None:
        return NoSecret(
            reason="Secrets go over the secure port alone, to proxies that prove who they are; "
            "--plaintext-secrets lets them go over the plaintext port"
        )
    is_root = name.name.startswith(CONFIG_MAP)
    if not name.by_gateway and not is_root and name.namespace != proxy.namespace:
        return NoSecret(
            reason=f"the Secret is of the namespace {name.namespace}, and the proxy is of "
            f"{proxy.namespace}"
        )
    if text not in (named.of_sidecars if proxy.is_sidecar else named.of_routers):
        return NoSecret(reason=_not_named(proxy, accounts))
    return name


def _not_named(proxy: Proxy, accounts: Collection[str]) -> str:
    if proxy.is_sidecar:
        what = "a DestinationRule whose workloadSelector is for"
    else:
        what = "a Gateway whose selector is for, or a DestinationRule for such a gateway,"
    if not accounts:
        return f"it is given what {what} its labels names"
    of = f"{', '.join(sorted(accounts))} in {proxy.namespace}"
    return (
        f"it is given what {what} a known workload of the service account {of} names; known are "
        "Pods, WorkloadEntries, WorkloadGroups and endpoints of ServiceEntries: write one with "
        "this account and the labels of the selector; labels of the node don't count"
    )


def names_its_routers(gateway: Gateway, namespace: str) -> bool:
    """Return whether a Gateway says which workloads are its routers, so that they get its keys.

    One without a selector is for all workloads of the mesh. That is the word of its own namespace
    about its own workloads, and of no other's.
    """
    return bool(gateway.spec.selector or gateway.services) or gateway.namespace == namespace


def _of_gateways(gateways: Iterable[Gateway]) -> Iterator[str]:
    for gateway in gateways:
        for server in gateway.spec.servers:
            tls = server.tls
            if tls is None or not tls.mode.terminates:
                continue
            for each in tls.credentials:
                yield credential(each)
                yield credential_roots(each)
            if tls.ca_cert_credential_name:
                yield credential_roots(tls.ca_cert_credential_name)
