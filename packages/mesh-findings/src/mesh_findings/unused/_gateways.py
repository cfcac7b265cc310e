"""Finds Gateways, or parts of them, without effect; problems say where in the files.

Each object is valid by itself. A server may be left out where several Gateways want one port, a
VirtualService may be bound to a Gateway that has no place for it, and a certificate may be missing.
"""

import dataclasses
from collections.abc import Iterable, Iterator

from envoy_config.plans import (
    LeftOut,
    account_workloads,
    bound_hosts,
    names_its_routers,
    plan_router,
    same_objects,
)
from istio_config import ConfigObject
from istio_config.kinds.gateway import Server, ServerHost, ServerTlsSettings, parse_server_host
from istio_config.kinds.virtual_service import VirtualServiceSpec
from mesh_configfile import Problem
from mesh_model import (
    MESH,
    Gateway,
    Gateways,
    MeshModel,
    VirtualService,
    foreign_host,
    resolved_gateway,
)
from mesh_model.secrets import ROOTS_SUFFIX, Secrets

_TRANSLATED = "internal.istio.io/"
"""The beginning of annotations of objects that no one wrote as they are."""


def unused_gateways(model: MeshModel) -> Iterator[Problem]:
    """Yield a problem for each part of a Gateway that has no effect at any router."""
    yield from left_out_problems(_left_out(model.gateways), model.gateways)
    for gateway in model.gateways.gateways:
        item = model.gateways.object_of(gateway)
        if not is_translated(item):
            yield from _missing_secrets(gateway, item, model.secrets)
            yield from _unknown_routers(gateway, item, model)


def same_gateways(old: MeshModel, new: MeshModel) -> bool:
    """Return whether `unused_gateways` finds the same in both, as far as is cheap to compare."""
    return old.gateways is new.gateways and old.secrets is new.secrets and same_objects(old, new)


def left_out_problems(left_out: Iterable[LeftOut], gateways: Gateways) -> Iterator[Problem]:
    """Yield the problems of servers that routers do not open."""
    for each in left_out:
        gateway = gateways.by_key.get(f"{each.namespace}/{each.gateway}")
        if gateway is not None:
            yield gateways.object_of(gateway).problem(
                ("spec", "servers", each.server_index),
                f"is left out: {each.reason}",
                "IST0145",
            )


def _left_out(gateways: Gateways) -> frozenset[LeftOut]:
    """Return what a router leaves out that has the labels of a selector and no others."""
    found: set[LeftOut] = set()
    seen: set[tuple[object, ...]] = set()
    for gateway in gateways.gateways:
        labels = tuple(sorted(gateway.spec.selector.items()))
        router = labels, gateway.services, gateway.own_namespace_only and gateway.namespace
        if router not in seen:
            seen.add(router)
            own = gateways.of_router(gateway.namespace, labels, gateway.services)
            found.update(plan_router(own, target_ports={}).left_out)
    return frozenset(found)


def is_translated(item: ConfigObject) -> bool:
    """Return whether an object was translated from others: no one wrote it as it is."""
    return any(key.startswith(_TRANSLATED) for key, _ in item.annotations)


def _missing_secrets(gateway: Gateway, item: ConfigObject, secrets: Secrets) -> Iterator[Problem]:
    for index, server in enumerate(gateway.spec.servers):
        for field, name in _credentials(server):
            if name not in secrets.names:
                yield item.problem(
                    ("spec", "servers", index, "tls", field),
                    f'there is no Secret "{name}" in any namespace: connections fail until one is '
                    "in the namespace of the router",
                    "IST0101",
                )


def _unknown_routers(gateway: Gateway, item: ConfigObject, model: MeshModel) -> Iterator[Problem]:
    """Yield a problem for each certificate that no router gets, as none is known by an account."""
    for index, server in enumerate(gateway.spec.servers):
        for field, name in _credentials(server):
            spaces = sorted(space for space, known in model.secrets.keys if known == name)
            if spaces and not any(_knows_router(gateway, each, model) for each in spaces):
                yield item.problem(
                    ("spec", "servers", index, "tls", field),
                    f"no workload that this Gateway selects is known by a service account in "
                    f'{", ".join(spaces)}: no router gets the Secret "{name}"; write a '
                    "WorkloadEntry, a WorkloadGroup or a Pod there with the account of the routers "
                    "and the labels of the selector",
                    "IST0101",
                )


def _knows_router(gateway: Gateway, namespace: str, model: MeshModel) -> bool:
    return names_its_routers(gateway, namespace) and any(
        gateway.selects(namespace, each.labels, each.hosts)
        for each in account_workloads(model, namespace)
    )


def _credentials(server: Server) -> Iterator[tuple[str, str]]:
    tls = server.tls
    if tls is None or not tls.mode.terminates:
        return
    field = "credentialNames" if tls.credential_names else "credentialName"
    for name in tls.credentials:
        yield field, name
    if tls.ca_cert_credential_name:
        yield "caCertCredentialName", _roots_of(tls)


def _roots_of(tls: ServerTlsSettings) -> str:
    return tls.ca_cert_credential_name.removesuffix(ROOTS_SUFFIX)


def unused_bindings(
    item: ConfigObject, virtual_service: VirtualService | None, gateways: Gateways
) -> Iterator[Problem]:
    """Yield a problem for each Gateway by which nothing comes to a VirtualService.

    virtual_service: of the object; None: it is a delegate.
    """
    spec = item.spec
    if not isinstance(spec, VirtualServiceSpec):
        return
    for index, given in enumerate(spec.gateways):
        name = resolved_gateway(given, item.namespace)
        if name == MESH:
            continue
        gateway = gateways.by_key.get(name)
        if gateway is None:
            yield item.problem(
                ("spec", "gateways", index),
                f"there is no Gateway {name}: nothing comes by it",
                "IST0101",
            )
        elif virtual_service is not None:
            withheld = list(_withheld(item, gateway, virtual_service))
            yield from withheld
            if not withheld and not hosts_at(gateway, virtual_service):
                yield item.problem(
                    ("spec", "gateways", index),
                    f"no server of Gateway {name} has a host of this VirtualService, or is for its "
                    "namespace: nothing comes by it",
                    "IST0132",
                )


def _withheld(
    item: ConfigObject, gateway: Gateway, virtual_service: VirtualService
) -> Iterator[Problem]:
    """Yield the hosts that a Gateway of another namespace gives, and that are not this one's."""
    if len(virtual_service.own_hosts) == len(set(virtual_service.hosts)):
        return
    servers = _hosts(gateway)
    for index, host in enumerate(virtual_service.hosts):
        if host in virtual_service.own_hosts:
            continue
        given = dataclasses.replace(virtual_service, own_hosts=frozenset({host}))
        now = bound_hosts(servers, virtual_service, gateway_namespace=gateway.namespace)
        if set(bound_hosts(servers, given, gateway_namespace=gateway.namespace)) - set(now):
            yield item.problem(
                ("spec", "hosts", index),
                f"{foreign_host(host, item.namespace)}: Gateway {gateway.key} of another "
                "namespace gives it to any, so none of its requests come here; name this "
                f'namespace there ("{item.namespace}/{host}")',
            )


def hosts_at(gateway: Gateway, found: VirtualService) -> tuple[str, ...]:
    """Return the hosts for which a VirtualService is bound to some server of a Gateway."""
    return bound_hosts(_hosts(gateway), found, gateway_namespace=gateway.namespace)


def _hosts(gateway: Gateway) -> tuple[ServerHost, ...]:
    return tuple(
        parse_server_host(each, gateway.namespace)
        for server in gateway.spec.servers
        for each in server.hosts
    )
