"""The VirtualServices of a mesh: for a namespace's proxies, in the order in which they win.

Those that are private to the namespace come first, then those exported to it by name, then public
ones; among each the oldest first.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple, cast

from msgspec.structs import replace

from istio_config import ConfigObject
from istio_config.kinds.virtual_service import HttpRoute, VirtualServiceSpec, expressions
from mesh_configfile.shapes import Finding
from mesh_model._derived import Derived, derive, noted
from mesh_model._object_changes import same_spec
from mesh_model._visibility import NO_OWNERS, HostOwners
from mesh_model.virtual_services._delegates import Dropped, delegated_routes
from mesh_model.virtual_services._expression_budget import VirtualHostCounts, over_budget
from mesh_model.virtual_services._resolved_names import MESH, http_destinations, resolved_spec

GATEWAY_SEMANTICS = ("internal.istio.io/route-semantics", "gateway")
"""The annotation, Istio's, of VirtualServices that are built from routes of the Gateway API."""
INGRESS_SEMANTICS = ("internal.istio.io/route-semantics", "ingress")
"""That of VirtualServices that are built from Kubernetes' Ingresses."""
_PRIVATE, _ALL, _NONE = ".", "*", "~"
_NO_COUNTS = VirtualHostCounts()
_Key = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, kw_only=True, eq=False)
class VirtualService:
    """A VirtualService with hosts; the same object as long as nothing of it changes."""

    namespace: str
    name: str
    spec: VirtualServiceSpec
    """With all names completed, and the routes of delegates in their places."""
    export_to: frozenset[str]
    """Namespaces, or `*`; empty: none."""
    mesh_export_to: frozenset[str]
    """The exportTo for sidecars: its own namespace alone, if another one owns a host of it."""
    own_hosts: frozenset[str]
    """The hosts that its namespace owns."""
    unused: tuple[Finding, ...] = ()
    """The parts of it that have no effect, such as a delegate that does not exist."""
    whole_elements: bool = False
    """Whether prefixes that do not end in a slash are of whole path elements: it is built from the
    Gateway API's routes, or from Ingresses."""
    gateway_semantics: bool = False
    """Whether it is built from the Gateway API's routes, so that requests for clusters that are not
    there are answered with 500."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts, completed and in lower case."""
        return self.spec.hosts

    @property
    def gateways(self) -> tuple[str, ...]:
        """`mesh`, or gateways as `namespace/name`."""
        return self.spec.gateways

    @cached_property
    def source_labels(self) -> frozenset[str]:
        """The keys of the labels of proxies that its matches look at."""
        labels = (
            *(match.source_labels for http in self.spec.http for match in http.match),
            *(match.source_labels for tls in self.spec.tls for match in tls.match),
            *(match.source_labels for tcp in self.spec.tcp for match in tcp.match),
        )
        return frozenset(key for each in labels for key in each)

    @cached_property
    def destination_hosts(self) -> frozenset[str]:
        """The hosts to which its HTTP routes lead, and mirror."""
        return frozenset(each.host for each in http_destinations(self.spec))

    @cached_property
    def expression_cost(self) -> int:
        """The cost of its regular expressions to Envoy, in each virtual host of its routes."""
        return sum(each.cost for each in expressions(self.spec))

    @cached_property
    def looks_at_source(self) -> bool:
        """Whether its HTTP routes differ between the proxies of a mesh."""
        return any(
            match.source_labels or match.source_namespace
            for route in self.spec.http
            for match in route.match
        )


class VirtualServiceSettings(NamedTuple):
    """The settings of a mesh that its VirtualServices depend on."""

    export_to: tuple[str, ...]
    """Of VirtualServices that say nothing of it."""
    domain: str
    """The DNS suffix that completes short names."""
    owners: HostOwners
    """A VirtualService with a host that another namespace owns is for its own sidecars alone."""


class _Root(NamedTuple):
    """A VirtualService, and the delegates that it names."""

    virtual_service: VirtualService
    delegates: frozenset[_Key]


class _Delegate(NamedTuple):
    spec: VirtualServiceSpec
    namespace: str
    export_to: frozenset[str]


_Roots = Derived[ConfigObject, _Key, _Root]
_Delegates = Derived[ConfigObject, _Key, _Delegate]


class _Notes(NamedTuple):
    """Delegates that some VirtualServices name, labels that some look at, and costs of some."""

    delegates: Mapping[_Key, frozenset[_Key]]
    labels: Mapping[_Key, frozenset[str]]
    costs: Mapping[_Key, int]


class VirtualServices:
    """All VirtualServices of a mesh that have hosts."""

    def __init__(
        self,
        derived: _Roots,
        delegates: _Delegates,
        counts: VirtualHostCounts,
        before: "VirtualServices | None",
    ) -> None:
        """counts: how often proxies have the routes of each. before: of which some are kept."""
        self.derived = derived
        self._delegates = delegates
        everything: tuple[VirtualService, ...] = tuple(
            map(_VIRTUAL_SERVICE, derived.values.values())
        )
        notes = before._notes if before is not None else _Notes({}, {}, {})
        self._notes: _Notes = _Notes(
            noted(derived, attrgetter("delegates"), notes.delegates),
            noted(derived, attrgetter("virtual_service.source_labels"), notes.labels),
            noted(derived, attrgetter("virtual_service.expression_cost"), notes.costs),
        )
        costs = self._notes.costs
        self._costly = (
            tuple(each for each in everything if (each.namespace, each.name) in costs)
            if costs
            else ()
        )
        self.left_out = over_budget(self._costly, counts)
        """Those, by namespace and name, whose regular expressions do not fit into the budget."""
        self.all = everything
        """The oldest first, without those that are left out."""
        if self.left_out:
            left_out = self.left_out
            self.all = tuple(
                each for each in everything if (each.namespace, each.name) not in left_out
            )
        self._of: dict[tuple[str, str], tuple[VirtualService, ...]] = {}
        if before is not None:
            self._take_over(before)

    @classmethod
    def build(
        cls,
        objects: Sequence[ConfigObject],
        settings: VirtualServiceSettings,
        *,
        counts: VirtualHostCounts = _NO_COUNTS,
        before: "VirtualServices | None" = None,
    ) -> "VirtualServices":
        """Return those of these objects: the ones before, if nothing of them changed.

        objects: oldest first. counts: how often proxies have the routes of each.
        """
        known = before if before is not None and before.derived.settings == settings else None
        delegates = derive(
            objects,
            _delegate_key,
            lambda _, items: _delegate(items[-1], settings),
            settings=settings,
            same=same_spec,
            before=known._delegates if known is not None else None,
        )
        derived = derive(
            objects,
            _root_key,
            lambda _, items: _root(items[-1], delegates.values, settings),
            settings=settings,
            same=_same_root,
            also=known._naming(delegates.touched) if known is not None else (),
            in_order=True,
            before=known.derived if known is not None else None,
        )
        if (
            known is None
            or derived.values is not known.derived.values
            or over_budget(known._costly, counts) != known.left_out
        ):
            return cls(derived, delegates, counts, known)
        known.derived, known._delegates = derived, delegates
        return known

    def _naming(self, delegates: AbstractSet[_Key]) -> list[_Key]:
        """Return those with one of some delegates."""
        if not delegates:
            return []
        return [
            each for each, named in self._notes.delegates.items() if not named.isdisjoint(delegates)
        ]

    def _take_over(self, before: "VirtualServices") -> None:
        """Take over the layers of those before, if what was edited has the same places in them."""
        if not self.derived.in_place or self.left_out != before.left_out:
            return
        if "_layers" not in vars(before) or len(self.derived.touched) > _FEW:
            return
        changed = [
            (before.derived.values[each].virtual_service, self.derived.values[each].virtual_service)
            for each in self.derived.touched
        ]
        if all(
            (old.namespace, old.gateways, old.export_to, old.mesh_export_to)
            == (new.namespace, new.gateways, new.export_to, new.mesh_export_to)
            for old, new in changed
        ):
            self._layers = _replaced_in(before._layers, changed)

    def of_mesh(self, namespace: str) -> tuple[VirtualService, ...]:
        """Return those for the sidecars of a namespace, in the order in which they win."""
        return self.of_gateway(MESH, namespace)

    def of_gateway(self, gateway: str, namespace: str) -> tuple[VirtualService, ...]:
        """Return those of a gateway, `namespace/name`, for its routers in a namespace."""
        key = gateway, namespace
        if key not in self._of:
            layers = self._layers.get(gateway, _Layers({}, {}, []))
            self._of[key] = (
                *layers.private.get(namespace, ()),
                *layers.exported.get(namespace, ()),
                *layers.public,
            )
        return self._of[key]

    @cached_property
    def source_labels(self) -> frozenset[str]:
        """The keys of the labels of proxies that matches look at."""
        left_out = self.left_out
        return frozenset(
            label
            for key, found in self._notes.labels.items()
            if key not in left_out
            for label in found
        )

    @cached_property
    def _layers(self) -> Mapping[str, "_Layers"]:
        found: dict[str, _Layers] = {}
        for each in self.all:
            for gateway in each.gateways:
                layers = found.setdefault(gateway, _Layers({}, {}, []))
                export_to = each.mesh_export_to if gateway == MESH else each.export_to
                if _ALL in export_to:
                    layers.public.append(each)
                    continue
                for namespace in export_to:
                    layer = layers.private if namespace == each.namespace else layers.exported
                    layer.setdefault(namespace, []).append(each)
        return found


_Replaced = Sequence[tuple[VirtualService, VirtualService]]
"""VirtualServices before and after, in the same places."""


class _Layers(NamedTuple):
    private: dict[str, list[VirtualService]]
    exported: dict[str, list[VirtualService]]
    public: list[VirtualService]


_FEW = 100
_VIRTUAL_SERVICE = attrgetter("virtual_service")


def _replaced_in(before: Mapping[str, _Layers], changed: _Replaced) -> dict[str, _Layers]:
    """Return the layers of gateways with other VirtualServices in the same places."""
    found = dict(before)
    for gateway in {each for old, _ in changed for each in old.gateways}:
        layers = before[gateway]
        own = [(old, new) for old, new in changed if gateway in old.gateways]
        found[gateway] = _Layers(
            {namespace: _with(each, own) for namespace, each in layers.private.items()},
            {namespace: _with(each, own) for namespace, each in layers.exported.items()},
            _with(layers.public, own),
        )
    return found


def _with(layer: list[VirtualService], changed: _Replaced) -> list[VirtualService]:
    found = layer
    for old, new in changed:
        while old in found:
            found = list(found) if found is layer else found
            found[found.index(old)] = new
    return found


def _root_key(item: ConfigObject) -> _Key | None:
    spec = item.spec
    return (
        (item.namespace, item.name) if isinstance(spec, VirtualServiceSpec) and spec.hosts else None
    )


def _delegate_key(item: ConfigObject) -> _Key | None:
    spec = item.spec
    if not isinstance(spec, VirtualServiceSpec) or spec.hosts:
        return None
    return item.namespace, item.name


def _same_root(one: ConfigObject, other: ConfigObject) -> bool:
    return same_spec(one, other) and _semantics(one) == _semantics(other)


def _semantics(item: ConfigObject) -> tuple[bool, bool]:
    return GATEWAY_SEMANTICS in item.annotations, INGRESS_SEMANTICS in item.annotations


def _delegate(item: ConfigObject, settings: VirtualServiceSettings) -> _Delegate:
    spec = cast("VirtualServiceSpec", item.spec)
    return _Delegate(spec, item.namespace, _exported(spec, item.namespace, settings))


def _root(
    item: ConfigObject, delegates: Mapping[_Key, _Delegate], settings: VirtualServiceSettings
) -> _Root:
    spec = cast("VirtualServiceSpec", item.spec)
    used = [_delegate_of(each, item.namespace, delegates) for each in spec.http]
    built = _virtual_service((item.namespace, item.name), spec, used, settings)
    of_gateway_api, of_ingress = _semantics(item)
    built = dataclasses.replace(
        built, whole_elements=of_gateway_api or of_ingress, gateway_semantics=of_gateway_api
    )
    named = (_named(each, item.namespace) for each in spec.http)
    return _Root(built, frozenset(each for each in named if each is not None))


def _named(route: HttpRoute, namespace: str) -> _Key | None:
    """Return the key of a route's delegate, whether it is there or not."""
    if route.delegate is None:
        return None
    return route.delegate.namespace or namespace, route.delegate.name


def _delegate_of(
    route: HttpRoute, namespace: str, delegates: Mapping[_Key, _Delegate]
) -> _Delegate | None:
    """Return the delegate of a root's route, if it is there and exported to the root."""
    key = _named(route, namespace)
    named = delegates.get(key) if key is not None else None
    if named is None or not ({namespace, _ALL} & named.export_to):
        return None
    return named


def _virtual_service(
    key: _Key,
    spec: VirtualServiceSpec,
    delegates: Sequence[_Delegate | None],
    settings: VirtualServiceSettings,
) -> VirtualService:
    namespace, name = key
    resolved = resolved_spec(spec, namespace, settings.domain)
    unused: list[Finding] = []
    if any(each.delegate is not None for each in spec.http):
        http = tuple(_with_delegates(resolved.http, delegates, settings, unused))
        resolved = replace(resolved, http=http)
    export_to = _exported(spec, namespace, settings)
    own_hosts = frozenset(settings.owners.owned(namespace, resolved.hosts))
    at_home = frozenset({namespace}) if {namespace, _ALL} & export_to else frozenset[str]()
    return VirtualService(
        namespace=namespace,
        name=name,
        spec=resolved,
        export_to=export_to,
        mesh_export_to=export_to if own_hosts.issuperset(resolved.hosts) else at_home,
        own_hosts=own_hosts,
        unused=tuple(unused),
    )


def _with_delegates(
    routes: Iterable[HttpRoute],
    delegates: Sequence[_Delegate | None],
    settings: VirtualServiceSettings,
    unused: list[Finding],
) -> Iterable[HttpRoute]:
    for index, (route, delegate) in enumerate(zip(routes, delegates, strict=True)):
        if route.delegate is None:
            yield route
            continue
        path = ("http", index, "delegate")
        named = route.delegate.name
        if delegate is None:
            owner = f"{route.delegate.namespace}/" if route.delegate.namespace else ""
            missing = (
                f"there is no VirtualService {owner}{named} without hosts that is exported to this "
                "namespace: this route takes no requests"
            )
            unused.append((path, missing))
            continue
        resolved = resolved_spec(delegate.spec, delegate.namespace, settings.domain)
        for each in delegated_routes(index, route, resolved.http):
            if isinstance(each, Dropped):
                left_out = (
                    f"http[{each.delegate_route}] of {named} is left out: one of its matches has "
                    "no request in common with the matches here"
                )
                unused.append((path, left_out))
            else:
                yield each


def _exported(
    spec: VirtualServiceSpec, namespace: str, settings: VirtualServiceSettings
) -> frozenset[str]:
    values = spec.export_to or settings.export_to
    return frozenset(namespace if each == _PRIVATE else each for each in values) - {_NONE}


NO_VIRTUAL_SERVICES = VirtualServices.build(
    (), VirtualServiceSettings(export_to=(), domain="", owners=NO_OWNERS)
)
"""Those of a mesh without any."""
