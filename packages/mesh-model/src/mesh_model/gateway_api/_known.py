"""The parts of a translation, which the next one keeps where no input of theirs changed.

A route is bound again if it changed, or its Gateways, the grants, or an answer of the mesh that its
translation has read. A Gateway's listeners likewise; a table of routes if one of its routes was.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from istio_config import ConfigObject
from istio_config.kinds.gateway_api import BackendTlsPolicySpec, GatewaySpec
from mesh_model.gateway_api._backend_policies import BoundPolicy, bind_policy
from mesh_model.gateway_api._bound_routes import (
    BoundGateways,
    BoundRoute,
    GatewayKey,
    RouteSpec,
    bind_route,
)
from mesh_model.gateway_api._listener_sets import SetsOf, bind_sets
from mesh_model.gateway_api._listeners import BoundListener, BoundSet, bind_listeners
from mesh_model.gateway_api._surroundings import Answers, Grants, MeshFacts, Surroundings

ObjectKey: TypeAlias = tuple[str, str, str]
TableKey: TypeAlias = tuple[str, ...]


class KnownGateway(NamedTuple):
    """The listeners of a Gateway, and what they depend on."""

    item: ConfigObject
    sets: Sequence[ConfigObject]
    answers: Answers
    listeners: Sequence[BoundListener]
    of_sets: Sequence[BoundSet]


class KnownRoute(NamedTuple):
    """A route with its parents, and what it depends on."""

    answers: Answers
    gateways: Mapping[GatewayKey, object]
    bound: BoundRoute


class KnownPolicy(NamedTuple):
    """A policy with its targets, and what it depends on."""

    answers: Answers
    bound: BoundPolicy


class KnownTable(NamedTuple):
    """A VirtualService, and the routes that it is built from."""

    parts: tuple[object, ...]
    virtual_service: ConfigObject


class Known:
    """The parts of one translation; parts that are asked for are taken over from the one before."""

    def __init__(self, grants: Grants, facts: MeshFacts, before: "Known | None" = None) -> None:
        self.grants = grants
        self._facts = facts
        self._before = before
        self._same_grants = before is not None and before.grants == grants
        self._gateways: dict[ObjectKey, KnownGateway] = {}
        self._routes: dict[ObjectKey, KnownRoute] = {}
        self._policies: dict[ObjectKey, KnownPolicy] = {}
        self._tables: dict[TableKey, KnownTable] = {}

    def finished(self) -> None:
        """Forget the translation before, which would keep those before it."""
        self._before = None

    def hold_in(self, facts: MeshFacts) -> bool:
        """Return whether another mesh gives all answers that the parts are built with."""
        if not self._facts.answers_alike(facts):
            given = [each.answers for each in self._gateways.values()]
            given += [each.answers for each in self._routes.values()]
            given += [each.answers for each in self._policies.values()]
            if not all(each.hold_in(facts) for each in given):
                return False
        self._facts = facts  # the mesh before is not kept
        return True

    def gateway(
        self, item: ConfigObject, spec: GatewaySpec, sets: Sequence[ConfigObject]
    ) -> KnownGateway:
        """Return the listeners of a Gateway, and those of its ListenerSets."""
        known = self._before._gateways.get(_key(item)) if self._before is not None else None
        if (
            known is None
            or known.item is not item
            or len(known.sets) != len(sets)
            or any(old is not new for old, new in zip(known.sets, sets, strict=True))
            or not self._same_grants
            or not known.answers.hold_in(self._facts)
        ):
            around = Surroundings(self._facts)
            listeners = bind_listeners(item, spec, around, self.grants)
            of_sets = bind_sets(SetsOf(item, spec, listeners), sets, around, self.grants)
            known = KnownGateway(item, sets, around.answers, listeners, of_sets)
        self._gateways[_key(item)] = known
        return known

    def route(self, item: ConfigObject, spec: RouteSpec, gateways: BoundGateways) -> BoundRoute:
        """Return a route with its parents."""
        known = self._before._routes.get(_key(item)) if self._before is not None else None
        if (
            known is None
            or known.bound.item is not item
            or not self._same_grants
            or any(gateways.find(key) is not each for key, each in known.gateways.items())
            or not known.answers.hold_in(self._facts)
        ):
            around = Surroundings(self._facts)
            keys = [
                (each.kind, each.namespace or item.namespace, each.name)
                for each in spec.parent_refs
            ]
            bound = bind_route(item, spec, gateways, around, self.grants)
            known = KnownRoute(around.answers, {key: gateways.find(key) for key in keys}, bound)
        self._routes[_key(item)] = known
        return known.bound

    def policy(self, item: ConfigObject, spec: BackendTlsPolicySpec) -> BoundPolicy:
        """Return a policy with its targets."""
        known = self._before._policies.get(_key(item)) if self._before is not None else None
        if known is None or known.bound.item is not item or not known.answers.hold_in(self._facts):
            around = Surroundings(self._facts)
            known = KnownPolicy(around.answers, bind_policy(item, spec, around))
        self._policies[_key(item)] = known
        return known.bound

    def table(
        self, key: TableKey, parts: tuple[object, ...], make: Callable[[], ConfigObject]
    ) -> ConfigObject:
        """Return the VirtualService that is built from these parts."""
        known = self._before._tables.get(key) if self._before is not None else None
        if (
            known is None
            or len(known.parts) != len(parts)
            or any(old is not new for old, new in zip(known.parts, parts, strict=True))
        ):
            built = make()
            known = KnownTable(
                parts,
                known.virtual_service
                if known is not None and known.virtual_service == built
                else built,
            )
        self._tables[key] = known
        return known.virtual_service


def _key(item: ConfigObject) -> ObjectKey:
    return item.kind, item.namespace, item.name
