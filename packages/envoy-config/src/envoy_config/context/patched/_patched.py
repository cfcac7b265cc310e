"""The resources of proxies with their patches applied; others are passed on as they are."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple, TypeVar

from envoy_config.context._cache import MOST_RESOURCES, Cache
from envoy_config.context._named import named
from envoy_config.context.patched._failed_patches import FailedPatches
from envoy_config.context.patched._patch_sets import PatchedResource, PatchSet, PatchSets
from envoy_config.generate._messages import cluster_pb2, listener_pb2, route_pb2
from envoy_config.patch import _sorts as sorts
from envoy_config.patch._failures import Failure
from envoy_config.patch._resources import Outcome
from envoy_config.plan._proxy import Proxy
from envoy_config.plan.gateway._target_ports import target_ports
from envoy_config.plan.policies._patches import Patch
from istio_config.kinds.envoy_filter import ENVOY_FILTER, ApplyTo
from mesh_model import MeshModel
from xds_server import Generated, Resource

_M = TypeVar("_M", listener_pb2.Listener, cluster_pb2.Cluster, route_pb2.RouteConfiguration)
_MOST_ANSWERS = 10_000


_Outcomes = Cache[tuple[object, str, str], PatchedResource]
"""The outcome of some patches at resources, by all that it depends on: side, name and version."""


def _next_outcomes(_key: object, before: _Outcomes | None) -> _Outcomes:
    outcomes = _Outcomes(most=MOST_RESOURCES)
    if before is not None:
        outcomes.remember(before)
    return outcomes


class _Answer(NamedTuple):
    """An answer without patches, which is kept so that its identity means it, and with them."""

    plain: Generated
    patched: Generated


class Patched:
    """Applies the patches of one model's EnvoyFilters."""

    def __init__(self, model: MeshModel, before: "Patched | None" = None) -> None:
        self._model = model
        sets: PatchSets = before._sets if before is not None else PatchSets()
        self._sets: PatchSets = sets.for_model(model)
        self._failed: FailedPatches = before._failed if before is not None else FailedPatches()
        if self._sets is not sets:
            self._failed.keep(self._sets.live)
        self._answers = Cache[tuple[int, int], _Answer](most=_MOST_ANSWERS)
        self._outcomes = Cache[tuple[PatchSet, str], _Outcomes]()
        """By the patches and the type of resources."""
        if before is not None:
            live = self._sets.all
            self._outcomes.remember(before._outcomes, where=lambda key: key[0] in live)
        self.has_patches = model.workload_rules.has(ENVOY_FILTER)
        """Whether any proxy may have some."""

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The patches that proxies go without, for those served so far."""
        return self._failed.all

    def listeners(self, proxy: Proxy, plain: Generated) -> Generated:
        """Return a proxy's listeners with its patches."""
        patches = self._sets.for_proxy(proxy, self._model)
        if patches is None or not patches.patches.listeners:
            return plain
        return self._answer(plain, patches, lambda: self._listeners(proxy, plain, patches))

    def clusters(self, proxy: Proxy, plain: Generated) -> Generated:
        """Return a proxy's clusters with its patches."""
        patches = self._sets.for_proxy(proxy, self._model)
        if patches is None or not patches.patches.clusters:
            return plain
        return self._answer(plain, patches, lambda: self._clusters(proxy, plain, patches))

    def routes(self, proxy: Proxy, plain: Generated) -> Generated:
        """Return route configurations of a proxy with its patches."""
        patches = self._sets.for_proxy(proxy, self._model)
        if patches is None or not patches.on_routes:
            return plain
        if proxy.is_sidecar:
            return self._answer(plain, patches, lambda: self._routes(proxy, plain, patches))
        return self._routes(proxy, plain, patches)  # routers are each answered by itself

    def extensions(
        self, proxy: Proxy, wanted: frozenset[str], own: Mapping[str, Resource]
    ) -> Generated:
        """Return the configurations of extensions of these names, and which there are none of.

        own: those that are no patch's, by their names.
        """
        patches = self._sets.for_proxy(proxy, self._model) if self.has_patches else None
        found = dict(own)
        for each in patches.patches.extensions if patches is not None else ():
            name = str(getattr(each.value, "name", ""))
            if name in own:
                self._fail(each, name, "a TrafficExtension or WasmPlugin has the name")
            elif name in found:
                self._fail(each, name, "another patch adds the extension before")
            elif name in wanted:
                found[name] = Resource.pack(each.value, name=name)
        return Generated(resources=tuple(found.values()), removed=wanted - found.keys())

    def _answer(
        self, plain: Generated, patches: PatchSet, make: Callable[[], Generated]
    ) -> Generated:
        """Return one answer for all proxies that have the same one, and the same patches."""
        key = id(plain), id(patches)
        return self._answers.get(key, lambda _: _Answer(plain, make())).patched

    def _listeners(self, proxy: Proxy, plain: Generated, patches: PatchSet) -> Generated:
        at_gateway = not proxy.is_sidecar
        listeners = [
            self._listener(each, patches, at_gateway=at_gateway) for each in plain.resources
        ]
        taken = {where for each in listeners if not each.moved for where in each.addresses}
        for index, each in enumerate(listeners):
            if each.moved and each.resource is not None:
                listeners[index] = self._at_free_addresses(each, plain.resources[index], taken)
        names = {each.resource.name for each in listeners if each.resource is not None}
        for patch in patches.added_listeners:
            if not isinstance(patch.value, listener_pb2.Listener):
                continue
            addresses = tuple(_addresses(patch.value))
            both = taken.intersection(addresses)
            wrong = f"another listener has the address {', '.join(sorted(both))}" if both else None
            new = self._added(patch, patch.value, names, wrong)
            if new is not None:
                names.add(new.name)
                taken.update(addresses)
                listeners.append(PatchedResource(new))
        return _generated(plain, listeners)

    def _clusters(self, proxy: Proxy, plain: Generated, patches: PatchSet) -> Generated:
        at_gateway = not proxy.is_sidecar
        clusters = [self._cluster(each, patches, at_gateway=at_gateway) for each in plain.resources]
        names = {each.resource.name for each in clusters if each.resource is not None}
        for patch in patches.added_clusters:
            if isinstance(patch.value, cluster_pb2.Cluster):
                new = self._added(patch, patch.value, names, None)
                if new is not None:
                    names.add(new.name)
                    clusters.append(PatchedResource(new))
        return _generated(plain, clusters)

    def _routes(self, proxy: Proxy, plain: Generated, patches: PatchSet) -> Generated:
        ports = () if proxy.is_sidecar else tuple(target_ports(proxy, self._model).items())
        side = sorts.routes_side(ports, at_gateway=not proxy.is_sidecar)

        def make(resource: Resource) -> PatchedResource:
            before = route_pb2.RouteConfiguration.FromString(resource.body)
            outcome = sorts.patched_routes(before, patches.on_routes, side)
            return _pack(resource, before, outcome, patches.on_routes)

        configurations = [
            self._patched_resource(each, patches, side, partial(make, each))
            for each in plain.resources
        ]
        return _generated(plain, configurations)

    def _listener(
        self, resource: Resource, patches: PatchSet, *, at_gateway: bool
    ) -> PatchedResource:
        def make() -> PatchedResource:
            before = listener_pb2.Listener.FromString(resource.body)
            some = sorts.for_listener(patches.on_listeners, resource.name)
            outcome = sorts.patched_listener(before, some, at_gateway=at_gateway)
            after = outcome.message if outcome.message is not None else before
            patched = _pack(resource, before, outcome, some)
            addresses = tuple(_addresses(after))
            moved = addresses != tuple(_addresses(before))
            return patched._replace(addresses=addresses, moved=moved)

        return self._patched_resource(resource, patches, at_gateway, make)

    def _cluster(
        self, resource: Resource, patches: PatchSet, *, at_gateway: bool
    ) -> PatchedResource:
        some = sorts.for_cluster(patches.on_clusters, resource.name, at_gateway=at_gateway)
        if not some:
            return PatchedResource(resource)

        def make() -> PatchedResource:
            before = cluster_pb2.Cluster.FromString(resource.body)
            return _pack(resource, before, sorts.patched_cluster(before, some), some)

        return self._patched_resource(resource, patches, at_gateway, make)

    def _patched_resource(
        self,
        resource: Resource,
        patches: PatchSet,
        side: object,
        make: Callable[[], PatchedResource],
    ) -> PatchedResource:
        outcomes = self._outcomes.renew((patches, resource.type_url), _next_outcomes)
        key = side, resource.name, resource.version
        return self._noted(outcomes.renew(key, lambda _, before: before or make()), resource)

    def _at_free_addresses(
        self, listener: PatchedResource, plain: Resource, taken: set[str]
    ) -> PatchedResource:
        """Return a listener that patches gave other addresses, or as it was if they are taken."""
        both = taken.intersection(listener.addresses)
        if not both:
            taken.update(listener.addresses)
            return listener
        for patch in listener.applied:
            if patch.apply_to is ApplyTo.LISTENER:
                self._fail(patch, plain.name, f"another listener has {', '.join(sorted(both))}")
        before = tuple(_addresses(listener_pb2.Listener.FromString(plain.body)))
        taken.update(before)
        return PatchedResource(plain, addresses=before)

    def _noted(self, patched: PatchedResource, resource: Resource) -> PatchedResource:
        """Take note of how patches went at a resource."""
        if patched.applied:
            self._failed.note(resource.name, patched.applied, patched.failures)
        return patched

    def _added(
        self,
        patch: Patch,
        value: "listener_pb2.Listener | cluster_pb2.Cluster",
        names: set[str],
        wrong: str | None,
    ) -> Resource | None:
        if value.name in names:
            wrong = "there is another of this name"
        wrong = wrong or sorts.mistake_of_added(patch)
        if wrong is not None:
            self._fail(patch, value.name, wrong)
            return None
        self._failed.note(value.name, (patch,), ())
        return named(value)

    def _fail(self, patch: Patch, resource: str, reason: str) -> None:
        failure = Failure(patch=patch, resource=resource, reason=reason)
        self._failed.note(resource, (patch,), (failure,))


def _pack(
    resource: Resource, before: object, outcome: "Outcome[_M]", applied: tuple[Patch, ...]
) -> PatchedResource:
    """Pack an outcome; a resource that no patch changed stays the very one."""
    message = outcome.message
    if message is None:
        return PatchedResource(None, applied, outcome.failures)
    packed = resource if message is before else named(message)
    return PatchedResource(packed, applied, outcome.failures)


def _generated(plain: Generated, patched: Iterable[PatchedResource]) -> Generated:
    resources = tuple(each.resource for each in patched if each.resource is not None)
    same = len(resources) == len(plain.resources) and all(
        new is old for new, old in zip(resources, plain.resources, strict=True)
    )
    return plain if same else Generated(resources=resources, removed=plain.removed)


def _addresses(listener: listener_pb2.Listener) -> Iterator[str]:
    """Yield the addresses of a listener, each with its port and its protocol."""
    for each in (listener.address, *(more.address for more in listener.additional_addresses)):
        if each.HasField("pipe"):
            yield each.pipe.path
        elif each.HasField("socket_address"):
            where = each.socket_address
            protocol = " by UDP" if where.protocol else ""
            yield f"{where.address}:{where.port_value}{protocol}"
