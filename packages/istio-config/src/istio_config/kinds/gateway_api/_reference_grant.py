"""ReferenceGrant: which objects of other namespaces may refer to those of this one.

Source: the Gateway API, v1 and v1beta1.
"""

from collections.abc import Iterator

from istio_config.kinds.fields import SpecFields, Text
from istio_config.kinds.gateway_api._names import GROUP, wrong_group, wrong_kind, wrong_namespace
from istio_config.kinds.kind import Kind
from istio_config.kinds.metadata import Metadata
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding

_MOST = 16


class GrantFrom(SpecFields, frozen=True):
    """The objects that refer."""

    group: str
    kind: Text
    namespace: Text


class GrantTo(SpecFields, frozen=True):
    """The objects that are referred to; without a name all of the kind."""

    group: str
    kind: Text
    name: Text | None = None


class ReferenceGrantSpec(SpecFields, frozen=True):
    """References into the grant's namespace that are allowed."""

    from_: tuple[GrantFrom, ...]
    to: tuple[GrantTo, ...]


def _mistakes(spec: ReferenceGrantSpec, _metadata: Metadata) -> Iterator[Finding]:
    for field, count in (("from", len(spec.from_)), ("to", len(spec.to))):
        if not 1 <= count <= _MOST:
            yield (field,), f"must have 1 to {_MOST} entries, it has {count}"
    for index, each in enumerate(spec.from_):
        if text := wrong_namespace(each.namespace):
            yield ("from", index, "namespace"), text
        yield from _kind_mistakes(each, ("from", index))
    for index, to in enumerate(spec.to):
        yield from _kind_mistakes(to, ("to", index))


def _kind_mistakes(entry: GrantFrom | GrantTo, path: FieldPath) -> Iterator[Finding]:
    if text := wrong_group(entry.group):
        yield (*path, "group"), text
    if text := wrong_kind(entry.kind):
        yield (*path, "kind"), text


REFERENCE_GRANT = Kind(
    name="ReferenceGrant",
    group=GROUP,
    versions=("v1", "v1beta1", "v1alpha2"),
    spec=ReferenceGrantSpec,
    validate=_mistakes,
)
