"""The VirtualServices of a mesh: for a namespace's proxies, in the order in which they win.

Those that are private to the namespace come first, then those exported to it by name, then public
ones; among each the oldest first.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from msgspec.structs import replace

from mesh_configfile.shapes import Finding
from mesh_discovery.config._objects import ConfigObject
from mesh_discovery.config.kinds.virtual_service._spec import HttpRoute, VirtualServiceSpec
from mesh_discovery.model._short_names import MESH_DOMAIN
from mesh_discovery.model.virtual_services._delegates import Dropped, delegated_routes
from mesh_discovery.model.virtual_services._http_destinations import http_destinations
from mesh_discovery.model.virtual_services._resolved_names import MESH, resolved_spec

GATEWAY_SEMANTICS = ("internal.istio.io/route-semantics", "gateway")
"""The annotation, Istio's, of VirtualServices that are made of routes of the Gateway API."""
_PRIVATE, _ALL, _NONE = ".", "*", "~"


@dataclass(frozen=True, kw_only=True, eq=False)
class VirtualService:
    """A VirtualService with hosts; the same object as long as nothing of it changes."""

    namespace: str
    name: str
    spec: VirtualServiceSpec
    """With all names completed, and the routes of delegates in their places."""
    export_to: frozenset[str]
    """Namespaces, or `*`; empty: none."""
    unused: tuple[Finding, ...] = ()
    """The parts of it that come to nothing, such as a delegate that is not there."""
    gateway_semantics: bool = False
    """Whether it is made of the Gateway API's routes: prefixes that do not end in a slash are of
    whole path elements, and requests for clusters that are not there are answered with 500."""

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
    def looks_at_source(self) -> bool:
        """Whether its HTTP routes differ between the proxies of a mesh."""
        return any(
            match.source_labels or match.source_namespace
            for route in self.spec.http
            for match in route.match
        )


class VirtualServices:
    """All VirtualServices of a mesh that have hosts."""

    def __init__(
        self,
        objects: Sequence[ConfigObject] = (),
        *,
        export_to: Sequence[str] = (_ALL,),
        domain: str = MESH_DOMAIN,
        before: "VirtualServices | None" = None,
    ) -> None:
        """objects: oldest first. export_to: of VirtualServices that say nothing of it."""
        self._objects = tuple(objects)
        self._settings = _Settings(tuple(export_to), domain)
        same = before is not None and before._settings == self._settings
        known = before._made if same and before is not None else {}
        self._made: Mapping[_Key, _Made] = _made(self._objects, self._settings, known)
        self.all = tuple(each.virtual_service for each in self._made.values())
        """The oldest first."""
        self._of: dict[tuple[str, str], tuple[VirtualService, ...]] = {}

    @classmethod
    def of(
        cls,
        objects: Sequence[ConfigObject],
        *,
        export_to: Sequence[str] = (_ALL,),
        domain: str = MESH_DOMAIN,
        before: "VirtualServices | None" = None,
    ) -> "VirtualServices":
        """Return those of these objects: the ones before, if nothing of them changed."""
        if (
            before is not None
            and before._settings == _Settings(tuple(export_to), domain)
            and _same(before._objects, objects)
        ):
            return before
        return cls(objects, export_to=export_to, domain=domain, before=before)

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
    def live(self) -> frozenset[VirtualService]:
        """All of them, to tell which of those kept in caches are gone."""
        return frozenset(self.all)

    @cached_property
    def source_labels(self) -> frozenset[str]:
        """The keys of the labels of proxies that matches look at."""
        return frozenset(key for each in self.all for key in each.source_labels)

    @cached_property
    def _layers(self) -> Mapping[str, "_Layers"]:
        found: dict[str, _Layers] = {}
        for each in self.all:
            for gateway in each.gateways:
                layers = found.setdefault(gateway, _Layers({}, {}, []))
                if _ALL in each.export_to:
                    layers.public.append(each)
                    continue
                for namespace in each.export_to:
                    layer = layers.private if namespace == each.namespace else layers.exported
                    layer.setdefault(namespace, []).append(each)
        return found


class _Settings(NamedTuple):
    export_to: tuple[str, ...]
    domain: str


class _Layers(NamedTuple):
    private: dict[str, list[VirtualService]]
    exported: dict[str, list[VirtualService]]
    public: list[VirtualService]


class _Made(NamedTuple):
    """A VirtualService, and the specs that it was made of: its own and those of its delegates."""

    specs: tuple[VirtualServiceSpec | None, ...]
    virtual_service: VirtualService


class _Delegate(NamedTuple):
    spec: VirtualServiceSpec
    namespace: str
    export_to: frozenset[str]


_Key = tuple[str, str]
"""Namespace and name."""


def _made(
    objects: Sequence[ConfigObject], settings: _Settings, before: Mapping[_Key, _Made]
) -> dict[_Key, _Made]:
    delegates: dict[_Key, _Delegate] = {}
    roots: list[tuple[_Key, VirtualServiceSpec, bool]] = []
    for item in objects:
        if isinstance(spec := item.spec, VirtualServiceSpec):
            key = item.namespace, item.name
            if spec.hosts:
                roots.append((key, spec, GATEWAY_SEMANTICS in item.annotations))
            else:
                exported = _exported(spec, item.namespace, settings)
                delegates[key] = _Delegate(spec, item.namespace, exported)
    found: dict[_Key, _Made] = {}
    for key, spec, by_gateway_api in roots:
        used = [_delegate_of(each, key[0], delegates) for each in spec.http]
        specs = (spec, *(each.spec if each is not None else None for each in used))
        known = before.get(key)
        if (
            known is not None
            and len(known.specs) == len(specs)
            and all(old is new for old, new in zip(known.specs, specs, strict=True))
            and known.virtual_service.gateway_semantics == by_gateway_api
        ):
            found[key] = known
        else:
            made = _virtual_service(key, spec, used, settings)
            found[key] = _Made(specs, dataclasses.replace(made, gateway_semantics=by_gateway_api))
    return found


def _delegate_of(
    route: HttpRoute, namespace: str, delegates: Mapping[_Key, _Delegate]
) -> _Delegate | None:
    """Return the delegate of a root's route, if it is there and exported to the root."""
    if route.delegate is None:
        return None
    named = delegates.get((route.delegate.namespace or namespace, route.delegate.name))
    if named is None or not ({namespace, _ALL} & named.export_to):
        return None
    return named


def _virtual_service(
    key: _Key,
    spec: VirtualServiceSpec,
    delegates: Sequence[_Delegate | None],
    settings: _Settings,
) -> VirtualService:
    namespace, name = key
    resolved = resolved_spec(spec, namespace, settings.domain)
    unused: list[Finding] = []
    if any(each.delegate is not None for each in spec.http):
        http = tuple(_with_delegates(resolved.http, delegates, settings, unused))
        resolved = replace(resolved, http=http)
    return VirtualService(
        namespace=namespace,
        name=name,
        spec=resolved,
        export_to=_exported(spec, namespace, settings),
        unused=tuple(unused),
    )


def _with_delegates(
    routes: Iterable[HttpRoute],
    delegates: Sequence[_Delegate | None],
    settings: _Settings,
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


def _exported(spec: VirtualServiceSpec, namespace: str, settings: _Settings) -> frozenset[str]:
    values = spec.export_to or settings.export_to
    return frozenset(namespace if each == _PRIVATE else each for each in values) - {_NONE}


def _same(before: Sequence[ConfigObject], after: Sequence[ConfigObject]) -> bool:
    return len(before) == len(after) and all(
        old is new or (old.spec is new.spec and old.key == new.key)
        for old, new in zip(before, after, strict=True)
    )


NO_VIRTUAL_SERVICES = VirtualServices()
"""Those of a mesh without any."""
