"""ListenerSets of a Gateway: which it allows, and which listeners find a place with its own."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from istio_config import ConfigObject
from istio_config.kinds.gateway_api import GatewaySpec, ListenerSetSpec
from istio_config.kinds.gateway_api.listeners import From
from mesh_model._visibility import foreign_host
from mesh_model.gateway_api._attachment import selects
from mesh_model.gateway_api._conditions import Condition
from mesh_model.gateway_api._listeners import (
    ANY,
    NO_CONFLICT,
    BoundListener,
    BoundSet,
    ListenerBinder,
    conflict_between,
)
from mesh_model.gateway_api._surroundings import Grants, Surroundings
from mesh_model.gateway_api._virtual_services import age


def is_set_of(gateway: ConfigObject, item: ConfigObject) -> bool:
    """Return whether a ListenerSet is for a Gateway."""
    if not isinstance(item.spec, ListenerSetSpec):
        return False
    parent = item.spec.parent_ref
    namespace = parent.namespace or item.namespace
    return (namespace, parent.name) == (gateway.namespace, gateway.name)


class SetsOf(NamedTuple):
    """A Gateway, with its own listeners."""

    gateway: ConfigObject
    spec: GatewaySpec
    own: Sequence[BoundListener]


def bind_sets(
    of: SetsOf, sets: Iterable[ConfigObject], around: Surroundings, grants: Grants
) -> tuple[BoundSet, ...]:
    """Return the ListenerSets of a Gateway, whose own listeners come first, then older sets."""
    gateway, spec = of.gateway, of.spec
    own = [each.listener for each in of.own if not each.is_in_conflict]
    taken = [each for each in own if not each.opens_no_port]
    found = []
    for item in sorted(sets, key=age):
        if not isinstance(item.spec, ListenerSetSpec):
            continue
        if not _allows(gateway, spec, item.namespace, around):
            message = (
                f"the Gateway {gateway.namespace}/{gateway.name} allows no ListenerSet of the "
                f"namespace {item.namespace} (allowedListeners)"
            )
            refused = Condition("Accepted", False, "NotAllowed", message)
            found.append(BoundSet(item, (), refused))
            continue
        is_granted = _is_granted(gateway, spec, item.namespace)
        binder = ListenerBinder(gateway, item, around, grants, is_granted=is_granted)
        listeners = []
        for index, listener in enumerate(item.spec.listeners):
            host = listener.hostname or ANY
            if not is_granted and not around.owns(item.namespace, host):
                message = (
                    f"{foreign_host(host, item.namespace)}, and the Gateway "
                    f"{gateway.namespace}/{gateway.name} allows sets of any"
                )
                accepted = Condition("Accepted", False, "NotAllowed", message)
                listeners.append(binder.bind(index, listener, NO_CONFLICT, accepted))
                continue
            conflicts = (conflict_between(listener, each) for each in taken)
            conflict = next((each for each in conflicts if each is not None), None)
            if conflict is None and not listener.opens_no_port:
                taken.append(listener)
            listeners.append(binder.bind(index, listener, conflict or NO_CONFLICT))
        found.append(BoundSet(item, tuple(listeners), None))
    return tuple(found)


def _allows(gateway: ConfigObject, spec: GatewaySpec, namespace: str, around: Surroundings) -> bool:
    if spec.allowed_listeners is None:
        return False
    allowed = spec.allowed_listeners.namespaces
    match allowed.from_:
        case From.ALL:
            return True
        case From.SAME:
            return namespace == gateway.namespace
        case From.SELECTOR:
            selector = allowed.selector
            return selector is not None and selects(selector, around.labels(namespace))
        case From.NONE:
            return False


def _is_granted(gateway: ConfigObject, spec: GatewaySpec, namespace: str) -> bool:
    """Return whether the Gateway means this namespace, and not whatever namespace there is."""
    allowed = spec.allowed_listeners
    from_all = allowed is not None and allowed.namespaces.from_ is From.ALL
    return namespace == gateway.namespace or not from_all
