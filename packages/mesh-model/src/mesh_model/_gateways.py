"""The Gateways of a mesh, and those that apply to a router.

A Gateway is for every router that has the labels of its selector, in any namespace. Two annotations
narrow that, as Istio's translation of the Gateway API writes them: one to the Gateway's own
namespace, one to the routers that serve certain hosts.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from istio_config import ConfigObject
from istio_config.kinds.gateway import GatewaySpec
from mesh_model._derived import Derived, derive, view
from mesh_model._services import Labels

OWN_NAMESPACE = ("internal.istio.io/gateway-semantics", "gateway")
"""The annotation of a Gateway that is only for routers of its own namespace."""
OF_SERVICES = "internal.istio.io/gateway-service"
"""The annotation that names the hosts, with commas between, whose endpoints are the routers."""


_ALL = "all"
"""The one key of all Gateways: their order counts, and they are few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """One Gateway, and what selects its routers."""

    namespace: str
    name: str
    spec: GatewaySpec
    own_namespace_only: bool
    services: frozenset[str] = frozenset()
    """The hosts that its routers serve; empty: its selector decides."""

    @property
    def key(self) -> str:
        """The name by which VirtualServices are bound to it, `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    def selects(self, namespace: str, labels: Labels, hosts: Collection[str]) -> bool:
        """Return whether it is for a router of this namespace, with labels, that serves hosts."""
        if self.own_namespace_only and namespace != self.namespace:
            return False
        return self.fits(labels, hosts)

    def fits(self, labels: Labels, hosts: Collection[str]) -> bool:
        """Return whether it selects a router with these labels that serves these hosts."""
        if self.services:
            return not self.services.isdisjoint(hosts)
        return self.spec.selector.items() <= dict(labels).items()


class Gateways:
    """All Gateways, oldest first."""

    def __init__(self, derived: Derived[ConfigObject, str, tuple[Gateway, ...]]) -> None:
        self.derived = derived
        self.gateways = derived.values.get(_ALL, ())
        """Oldest first."""

    @classmethod
    def build(
        cls,
        objects: Iterable[ConfigObject],
        before: "Gateways | None" = None,
        *,
        own_namespace_only: bool,
    ) -> "Gateways":
        """Return the gateways of these objects: those before, if they are of the same objects.

        own_namespace_only: a Gateway is for routers of its own namespace alone.
        """
        derived = derive(
            objects,
            lambda _: _ALL,
            lambda _, items: tuple(_gateways(items, own_namespace_only=own_namespace_only)),
            settings=own_namespace_only,
            before=before.derived if before is not None else None,
        )
        return view(cls, derived, before)

    def of_router(
        self, namespace: str, labels: Labels, hosts: Collection[str] = ()
    ) -> tuple[Gateway, ...]:
        """Return the Gateways of a router, oldest first; hosts: of the services that it serves."""
        return tuple(each for each in self.gateways if each.selects(namespace, labels, hosts))

    def withheld_from(
        self, namespace: str, labels: Labels, hosts: Collection[str] = ()
    ) -> tuple[Gateway, ...]:
        """Return the Gateways that select a router of another namespace, and are not for it.

        Those of the Gateway API are not among them: they are never for other namespaces.
        """
        if not self.derived.settings:
            return ()
        return tuple(
            each
            for each in self.gateways
            if each.namespace != namespace
            and each.fits(labels, hosts)
            and OWN_NAMESPACE not in self.object_of(each).annotations
        )

    def object_of(self, gateway: Gateway) -> ConfigObject:
        """Return the object of a Gateway, which knows its file and line."""
        return self._objects_by_key[gateway.namespace, gateway.name]

    def differing(self, other: "Gateways") -> frozenset[tuple[str, str]]:
        """Return namespace and name of the Gateways that two meshes do not have alike.

        All of them, if only their order differs.
        """
        if self is other or self.gateways == other.gateways:
            return frozenset()
        own = {(each.namespace, each.name): each for each in self.gateways}
        others = {(each.namespace, each.name): each for each in other.gateways}
        keys = own.keys() | others.keys()
        return frozenset({key for key in keys if own.get(key) != others.get(key)} or keys)

    @cached_property
    def by_key(self) -> dict[str, Gateway]:
        """The Gateways by `namespace/name`."""
        return {each.key: each for each in self.gateways}

    @cached_property
    def _objects_by_key(self) -> dict[tuple[str, str], ConfigObject]:
        return {(each.namespace, each.name): each for each in self.derived.objects}


def _gateways(objects: Iterable[ConfigObject], *, own_namespace_only: bool) -> Iterable[Gateway]:
    for each in objects:
        if isinstance(each.spec, GatewaySpec):
            hosts = dict(each.annotations).get(OF_SERVICES, "")
            yield Gateway(
                namespace=each.namespace,
                name=each.name,
                spec=each.spec,
                own_namespace_only=own_namespace_only or OWN_NAMESPACE in each.annotations,
                services=frozenset(host.strip().lower() for host in hosts.split(",") if host),
            )


NO_GATEWAYS = Gateways.build((), own_namespace_only=False)
