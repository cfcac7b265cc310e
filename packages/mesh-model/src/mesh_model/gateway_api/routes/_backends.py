"""References of routes to services: the destination, or why there is none.

Requests that a bad reference has a share of are answered with 500: they are sent to a host that
can't exist, and route tables of the Gateway API answer so where a cluster is missing.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from istio_config.kinds.gateway_api import GROUP, ISTIO, BackendObjectReference, BackendReference
from istio_config.kinds.virtual_service import Destination, PortSelector
from mesh_configfile import FieldPath
from mesh_model.gateway_api._conditions import Condition
from mesh_model.gateway_api._surroundings import Backend, Grants, Referrer, Surroundings, Target

Reference: TypeAlias = BackendReference | BackendObjectReference
NOWHERE = ".invalid"
"""The end of hosts that can't exist, by RFC 2606."""


class BadReference(NamedTuple):
    """A reference that leads nowhere, with its field and the reason."""

    path: FieldPath
    reason: str
    message: str


class Resolved(NamedTuple):
    """A destination; bad: why it leads nowhere."""

    destination: Destination
    bad: BadReference | None = None


class Resolver:
    """Resolves the references of one route, and gathers the bad ones."""

    def __init__(self, kind: str, namespace: str, around: Surroundings, grants: Grants) -> None:
        """Resolve for a route of this kind and namespace."""
        self._referrer = Referrer(GROUP, kind, namespace)
        self._namespace = namespace
        self._around = around
        self._grants = grants
        self.bad: list[BadReference] = []

    def resolve(self, reference: Reference, path: FieldPath) -> Resolved:
        """Return where a reference leads."""
        namespace = reference.namespace or self._namespace
        found, reason, message = self._find(reference, namespace)
        if found is not None and not reason:
            port = reference.port or found.only_port
            if port in found.ports:
                return Resolved(_destination(found.host, port))
            reason = "BackendNotFound"
            message = _no_port(reference, found)
        return self.refuse(reference, BadReference(path, reason, message))

    def refuse(self, reference: Reference, bad: BadReference) -> Resolved:
        """Return what stands for a reference that is not followed, so that it answers with 500."""
        self.bad.append(bad)
        namespace = reference.namespace or self._namespace
        host = f"{reference.name}.{namespace}{NOWHERE}".lower()
        return Resolved(_destination(host, reference.port or 80), bad)

    def _find(self, reference: Reference, namespace: str) -> tuple[Backend | None, str, str]:
        """Return a service; or None, the reason and a message."""
        name = f"{reference.kind} {namespace}/{reference.name}"
        kind = reference.group, reference.kind
        if kind not in ((("", "Service")), (ISTIO, "ServiceEntry"), (ISTIO, "Hostname")):
            known = "Service, and ServiceEntry or Hostname of networking.istio.io"
            message = (
                f"{reference.kind} of the group {reference.group or 'core'} can't be a backend"
            )
            return None, "InvalidKind", f"{message}; known: {known}"
        if not self._grants.allow(self._referrer, Target(*kind, namespace, reference.name)):
            message = f"{name} is in another namespace, and no ReferenceGrant there allows it"
            return None, "RefNotPermitted", message
        around, given = self._around, reference.name
        # An alias is resolved where the route is, as one that a VirtualService names.
        if kind == ("", "Service"):
            found = around.service(namespace, given) or around.alias(namespace, given)
        elif reference.kind == "ServiceEntry":
            found = around.entry(namespace, given)
        else:
            found = around.host(namespace, given) or around.alias_of_host(namespace, given)
        return found, "" if found is not None else "BackendNotFound", f"there is no {name}"

    @property
    def condition(self) -> Condition:
        """The route's condition ResolvedRefs."""
        return resolved_refs(self.bad)


def resolved_refs(bad: Sequence[BadReference]) -> Condition:
    """Return the condition ResolvedRefs, given the bad references."""
    if not bad:
        return Condition("ResolvedRefs", True, "ResolvedRefs")
    return Condition("ResolvedRefs", False, bad[0].reason, "; ".join(each.message for each in bad))


def _destination(host: str, port: int | None) -> Destination:
    return Destination(host=host, port=PortSelector(number=port) if port is not None else None)


def _no_port(reference: Reference, found: Backend) -> str:
    has = ", ".join(map(str, found.ports)) or "none"
    host = f"{found.host}, which stands for {found.stands_for}," if found.stands_for else found.host
    if reference.port is None:
        return f"{host} has several ports, {has}: say which is meant"
    return f"{host} has no port {reference.port}; it has {has}"
