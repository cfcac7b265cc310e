"""ListenerSet: listeners of a Gateway that are written beside it, perhaps in another namespace.

Source: the Gateway API, v1.
"""

from collections.abc import Iterator

from istio_config.kinds.fields import SpecFields, Text
from istio_config.kinds.gateway_api._names import GROUP, wrong_namespace
from istio_config.kinds.gateway_api.listeners import (
    Listener,
    listeners_mistakes,
    listeners_warnings,
)
from istio_config.kinds.kind import Kind
from istio_config.kinds.metadata import Metadata
from mesh_configfile.shapes import Finding


class ListenerSetParent(SpecFields, frozen=True):
    """The Gateway whose routers have the listeners."""

    name: Text
    group: str = GROUP
    kind: Text = "Gateway"
    namespace: Text | None = None


class ListenerSetSpec(SpecFields, frozen=True):
    """Further listeners of a Gateway."""

    parent_ref: ListenerSetParent
    listeners: tuple[Listener, ...]


def _mistakes(spec: ListenerSetSpec, _metadata: Metadata) -> Iterator[Finding]:
    parent = spec.parent_ref
    if (parent.group, parent.kind) != (GROUP, "Gateway"):
        yield ("parentRef", "kind"), f"a {parent.kind} has no listeners; use Gateway of {GROUP}"
    if parent.namespace is not None and (text := wrong_namespace(parent.namespace)):
        yield ("parentRef", "namespace"), text
    yield from listeners_mistakes(spec.listeners)


def _warnings(spec: ListenerSetSpec, _metadata: Metadata) -> Iterator[Finding]:
    yield from listeners_warnings(spec.listeners)


LISTENER_SET = Kind(
    name="ListenerSet",
    group=GROUP,
    versions=("v1",),
    spec=ListenerSetSpec,
    validate=_mistakes,
    warn=_warnings,
)
