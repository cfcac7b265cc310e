"""Which listeners a route attaches to, by each of its parentRefs, and with which hosts."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from istio_config import ConfigObject
from istio_config.kinds.gateway_api import ParentReference
from istio_config.kinds.gateway_api.listeners import From, LabelSelector, Operator, Requirement
from istio_config.kinds.kubernetes import HOSTS
from mesh_model._visibility import foreign_host
from mesh_model.gateway_api._conditions import Condition
from mesh_model.gateway_api._listeners import BoundListener, intersection
from mesh_model.gateway_api._surroundings import Labels, Surroundings

ACCEPTED = Condition("Accepted", True, "Accepted")


class Attached(NamedTuple):
    """A listener, and the hosts for which a route is attached."""

    bound: BoundListener
    hosts: tuple[str, ...]


class Attachment(NamedTuple):
    """The listeners that a parentRef leads to; none: the condition says why."""

    listeners: tuple[Attached, ...]
    accepted: Condition


def attach(
    item: ConfigObject,
    parent: ParentReference,
    hostnames: Sequence[str],
    listeners: Sequence[BoundListener],
    around: Surroundings,
) -> Attachment:
    """Attach a route to the listeners of the Gateway that a parentRef names."""
    name = f"{parent.namespace or item.namespace}/{parent.name}"
    named = [each for each in listeners if _is_named(parent, each)]
    if not named:
        message = f"the {parent.kind} {name} has no listener{_described(parent)}"
        return _refused("NoMatchingParent", message)
    allowed = [
        each for each in named if item.kind in each.kinds and _allows(each, item.namespace, around)
    ]
    if not allowed:
        message = (
            f"no listener{_described(parent)} of the {parent.kind} {name} "
            f"allows a {item.kind} of the namespace {item.namespace}"
        )
        return _refused("NotAllowedByListeners", message)
    found: list[Attached] = []
    withheld: list[str] = []
    for each in allowed:
        hosts = intersection(each.listener.hostname, hostnames)
        withheld += [host for host in hosts if not _gives(each, host, item.namespace, around)]
        hosts = tuple(host for host in hosts if host not in withheld)
        if hosts:
            found.append(Attached(each, hosts))
    if not found and withheld:
        message = (
            f"{foreign_host(withheld[0], item.namespace)}, and the {parent.kind} {name} gives it "
            "to no namespace by name: allow this one by a selector, or in the annotation "
            f"{HOSTS} of the Namespace"
        )
        return _refused("NotAllowedByListeners", message)
    if not found:
        has = ", ".join(each.listener.hostname or "*" for each in allowed)
        message = f"no hostname is one of the {parent.kind} {name}: its listeners have {has}"
        return _refused("NoMatchingListenerHostname", message)
    return Attachment(tuple(found), ACCEPTED)


def _refused(reason: str, message: str) -> Attachment:
    return Attachment((), Condition("Accepted", False, reason, message))


def _is_named(parent: ParentReference, bound: BoundListener) -> bool:
    listener = bound.listener
    return parent.section_name in (None, listener.name) and parent.port in (None, listener.port)


def _described(parent: ParentReference) -> str:
    message = f" {parent.section_name}" if parent.section_name is not None else ""
    return f"{message} of port {parent.port}" if parent.port is not None else message


def _allows(bound: BoundListener, namespace: str, around: Surroundings) -> bool:
    allowed = bound.listener.allowed_routes.namespaces
    match allowed.from_:
        case From.ALL:
            return True
        case From.SAME:
            return namespace == bound.owner.namespace
        case From.SELECTOR:
            selector = allowed.selector
            return selector is not None and selects(selector, around.labels(namespace))
        case From.NONE:
            return False


def _gives(bound: BoundListener, host: str, namespace: str, around: Surroundings) -> bool:
    """Return whether a listener that allows a namespace's routes gives it a host.

    `from: All` names no namespace, so it gives none a host that the namespace does not own.
    """
    is_meant = (
        bound.listener.allowed_routes.namespaces.from_ is not From.ALL
        or namespace == bound.owner.namespace
    )
    return (is_meant and bound.is_granted) or around.owns(namespace, host)


def selects(selector: LabelSelector, labels: Labels) -> bool:
    """Return whether labels meet all conditions; without any, all do."""
    if not selector.match_labels.items() <= labels.items():
        return False
    return all(_meets(each, labels) for each in selector.match_expressions)


def _meets(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case Operator.IN:
            return value in requirement.values
        case Operator.NOT_IN:
            return value not in requirement.values
        case Operator.EXISTS:
            return value is not None
        case Operator.DOES_NOT_EXIST:
            return value is None
