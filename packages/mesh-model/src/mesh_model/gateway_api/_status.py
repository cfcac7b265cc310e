"""The status of each Gateway and each route, in conditions, and the warnings that follow."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from istio_config import ConfigObject
from istio_config.kinds.gateway_api import (
    CONTROLLER,
    GatewayClassSpec,
    GatewaySpec,
    ListenerSetSpec,
)
from mesh_configfile import Problem
from mesh_model.gateway_api._bound_routes import BoundGateways, BoundParent, BoundRoute, GatewayKey
from mesh_model.gateway_api._conditions import (
    Condition,
    ListenerStatus,
    ObjectStatus,
    ParentStatus,
    unmet,
)
from mesh_model.gateway_api._listeners import BoundListener


class Refused(NamedTuple):
    """A route that another one leaves no place for at a listener."""

    kind: str
    namespace: str
    name: str
    listener: str


def statuses_of(
    objects: Sequence[ConfigObject],
    gateways: BoundGateways,
    routes: Sequence[BoundRoute],
    refused: frozenset[Refused],
) -> tuple[ObjectStatus, ...]:
    """Return the status of each Gateway and each route that is for this control plane."""
    of_routes = [_route_status(each, refused) for each in routes]
    attached = _attached_routes(routes, refused)
    found: list[ObjectStatus] = []
    for each in objects:
        if isinstance(each.spec, GatewayClassSpec) and each.spec.controller_name == CONTROLLER:
            accepted = Condition("Accepted", True, "Accepted")
            found.append(ObjectStatus(each.kind, "", each.name, (accepted,)))
        elif isinstance(each.spec, GatewaySpec):
            listeners = gateways.served.get((each.kind, each.namespace, each.name))
            if listeners is not None:
                found.append(_gateway_status(each, listeners, attached))
    for bound in gateways.sets:
        status = _gateway_status(bound.item, bound.listeners, attached)
        if bound.refused is not None:
            status = status._replace(conditions=(bound.refused, status.conditions[1]))
        found.append(status)
    return (*found, *of_routes)


def _route_status(route: BoundRoute, refused: frozenset[Refused]) -> ObjectStatus:
    item = route.item
    parents = tuple(
        ParentStatus(
            each.number, each.name, (_accepted(route, each, refused), *_resolved(route, each))
        )
        for each in route.parents
        if each.is_ours
    )
    return ObjectStatus(item.kind, item.namespace, item.name, parents=parents)


def _accepted(route: BoundRoute, parent: BoundParent, refused: frozenset[Refused]) -> Condition:
    item = route.item
    lost = [
        each
        for each in parent.listeners
        if Refused(item.kind, item.namespace, item.name, each.bound.key) in refused
    ]
    if not lost or len(lost) < len(parent.listeners):
        return parent.accepted
    message = "an older route has these hosts at the listener"
    return Condition("Accepted", False, "RouteConflict", message)


def _resolved(route: BoundRoute, parent: BoundParent) -> tuple[Condition, ...]:
    return (route.resolved,) if parent.accepted.status else ()


def _attached_routes(
    routes: Sequence[BoundRoute], refused: frozenset[Refused]
) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for route in routes:
        item = route.item
        keys = {each.bound.key for parent in route.parents for each in parent.listeners}
        for key in keys:
            if Refused(item.kind, item.namespace, item.name, key) not in refused:
                found[key] = found.get(key, 0) + 1
    return found


def _gateway_status(
    item: ConfigObject, listeners: Sequence[BoundListener], attached: Mapping[str, int]
) -> ObjectStatus:
    good = [each for each in listeners if each.is_valid]
    accepted = Condition("Accepted", True, "Accepted")
    if not good:
        message = "no listener can be served"
        accepted = Condition("Accepted", False, "ListenersNotValid", message)
    elif len(good) < len(listeners):
        accepted = Condition("Accepted", True, "ListenersNotValid")
    programmed = Condition("Programmed", bool(good), "Programmed" if good else "Invalid")
    return ObjectStatus(
        item.kind,
        item.namespace,
        item.name,
        (accepted, programmed),
        listeners=tuple(
            ListenerStatus(
                each.listener.name, attached.get(each.key, 0), each.kinds, each.conditions
            )
            for each in listeners
        ),
    )


def warnings_of(
    objects: Sequence[ConfigObject],
    statuses: Sequence[ObjectStatus],
    routes: Sequence[BoundRoute],
    others: AbstractSet[GatewayKey],
) -> Iterator[Problem]:
    """Yield what is not as configured, with the file and the field of each."""
    stated = {(each.kind, each.namespace, each.name): each for each in statuses}
    for item in objects:
        each = stated.get((item.kind, item.namespace, item.name))
        if each is not None:
            yield from _set_warnings(item, each)
            yield from _listener_warnings(item, each)
            yield from _parent_warnings(item, each)
    for route in routes:
        for bad in route.bad:
            yield route.item.problem(bad.path, f"{bad.message} ({bad.reason})")
    for item in objects:
        key = item.kind, item.namespace, item.name
        if isinstance(item.spec, GatewaySpec) and key not in stated:
            yield item.problem(
                ("spec", "gatewayClassName"),
                f"the class {item.spec.gateway_class_name} is not of {CONTROLLER}: "
                "the Gateway is accepted and has no effect",
            )
        elif isinstance(item.spec, ListenerSetSpec) and key not in (*stated, *others):
            parent = item.spec.parent_ref
            name = f"{parent.namespace or item.namespace}/{parent.name}"
            yield item.problem(("spec", "parentRef"), f"there is no Gateway {name}")


def _set_warnings(item: ConfigObject, status: ObjectStatus) -> Iterator[Problem]:
    if isinstance(item.spec, ListenerSetSpec):
        for each in unmet(status.conditions):
            if each.reason == "NotAllowed":
                yield item.problem(("spec", "parentRef"), f"{each.message} ({each.reason})")


def _listener_warnings(item: ConfigObject, status: ObjectStatus) -> Iterator[Problem]:
    for index, listener in enumerate(status.listeners):
        for each in unmet(listener.conditions):
            if each.message:
                yield item.problem(("spec", "listeners", index), f"{each.message} ({each.reason})")


def _parent_warnings(item: ConfigObject, status: ObjectStatus) -> Iterator[Problem]:
    for parent in status.parents:
        for each in unmet(parent.conditions):
            if each.type == "Accepted":
                yield item.problem(
                    ("spec", "parentRefs", parent.number), f"{each.message} ({each.reason})"
                )
