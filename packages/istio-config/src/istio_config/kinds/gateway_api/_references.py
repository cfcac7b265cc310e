"""References to other objects: of routes to their parents and backends, of gateways to secrets.

Source: the Gateway API, v1.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec

from istio_config.kinds.fields import PortNumber, SpecFields, Text
from istio_config.kinds.gateway_api._names import (
    GROUP,
    wrong_group,
    wrong_kind,
    wrong_namespace,
    wrong_section_name,
)
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding

Weight: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
ISTIO = "networking.istio.io"
MAX_PARENTS = 32
MAX_BACKENDS = 16


class DefaultScope(StrEnum):
    """The routes that attach to a default Gateway: Istio has none, so it has no effect."""

    ALL = "All"
    NONE = "None"


class ParentReference(SpecFields, frozen=True):
    """A Gateway that a route attaches to, or a Service whose clients' requests it routes."""

    name: Text
    group: str = GROUP
    kind: Text = "Gateway"
    namespace: Text | None = None
    section_name: Text | None = None
    port: PortNumber | None = None

    def target(self, namespace: str) -> tuple[str, str, str, str]:
        """Return group, kind, namespace and name for a route of a namespace."""
        return self.group, self.kind, self.namespace or namespace, self.name


class BackendReference(SpecFields, frozen=True):
    """A service that requests or connections are sent to, with its share of them."""

    name: Text
    group: str = ""
    kind: Text = "Service"
    namespace: Text | None = None
    port: PortNumber | None = None
    weight: Weight = 1


class BackendObjectReference(SpecFields, frozen=True):
    """A service to which a copy of requests is sent."""

    name: Text
    group: str = ""
    kind: Text = "Service"
    namespace: Text | None = None
    port: PortNumber | None = None


class ObjectReference(SpecFields, frozen=True):
    """A Secret or a ConfigMap; its namespace is the referrer's unless it is given."""

    name: Text
    group: str = ""
    kind: Text = "Secret"
    namespace: Text | None = None


class LocalReference(SpecFields, frozen=True):
    """An object of the same namespace."""

    group: str
    kind: Text
    name: Text


def parent_mistakes(parents: Sequence[ParentReference]) -> Iterator[Finding]:
    """Yield what is wrong with a route's parentRefs."""
    if len(parents) > MAX_PARENTS:
        yield ("parentRefs",), f"has {len(parents)} entries; {MAX_PARENTS} are allowed"
    seen: dict[tuple[object, ...], list[ParentReference]] = {}
    for index, each in enumerate(parents):
        path = ("parentRefs", index)
        yield from _name_mistakes(each.group, each.kind, each.namespace, path)
        if each.section_name is not None and (text := wrong_section_name(each.section_name)):
            yield (*path, "sectionName"), text
        earlier = seen.setdefault((each.group, each.kind, each.namespace or "", each.name), [])
        for other in earlier:
            if (other.section_name, other.port) == (each.section_name, each.port):
                yield path, f"the parent {each.name} is given twice in the same way"
                break
            if _is_whole(other) or _is_whole(each):
                yield (
                    path,
                    (
                        f"the parent {each.name} is given twice: "
                        "both must then have a sectionName or a port"
                    ),
                )
                break
        earlier.append(each)


def _is_whole(parent: ParentReference) -> bool:
    return parent.section_name is None and parent.port is None


def backend_mistakes(
    backend: BackendReference | BackendObjectReference, path: FieldPath
) -> Iterator[Finding]:
    """Yield what is wrong with a reference to a service."""
    yield from _name_mistakes(backend.group, backend.kind, backend.namespace, path)
    if backend.port is None and (backend.group, backend.kind) == ("", "Service"):
        yield (*path, "port"), "is missing: a Service needs the port that is meant"


def connection_backend_mistakes(
    backends: Sequence[BackendReference], path: FieldPath
) -> Iterator[Finding]:
    """Yield what is wrong with the backendRefs of a rule of TLS or TCP."""
    if len(backends) > MAX_BACKENDS:
        yield (
            (*path, "backendRefs"),
            f"has {len(backends)} entries; {MAX_BACKENDS} are allowed",
        )
    for index, each in enumerate(backends):
        yield from backend_mistakes(each, (*path, "backendRefs", index))


def object_reference_mistakes(reference: ObjectReference, path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with a reference to a Secret or a ConfigMap."""
    yield from _name_mistakes(reference.group, reference.kind, reference.namespace, path)


def local_reference_mistakes(reference: LocalReference, path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with a reference to an object of the same namespace."""
    yield from _name_mistakes(reference.group, reference.kind, None, path)


def _name_mistakes(
    group: str, kind: str, namespace: str | None, path: FieldPath
) -> Iterator[Finding]:
    if text := wrong_group(group):
        yield (*path, "group"), text
    if text := wrong_kind(kind):
        yield (*path, "kind"), text
    if namespace is not None and (text := wrong_namespace(namespace)):
        yield (*path, "namespace"), text
