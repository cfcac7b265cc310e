"""A document as far as all of Kubernetes' are alike: kind and name, and the rest as data.

Nothing of it is checked, so a wrong value is as if it were not there.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mesh_configfile import Document, FieldPath, Problem, Value

_CLUSTER_SCOPED = frozenset(
    {"Namespace", "Node", "GatewayClass", "CustomResourceDefinition", "ClusterRole"}
)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """A document with a kind and a name."""

    document: Document
    group: str
    kind: str
    namespace: str
    """Empty for kinds of the whole cluster."""
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}".replace(" /", " ")

    def at(self, *path: str | int) -> Value:
        """Return a value inside; None if there is none."""
        try:
            return self.document.part(*path).value
        except (LookupError, TypeError):
            return None

    def mapping(self, *path: str | int) -> Mapping[str, Value]:
        """Return a mapping inside; an empty one if there is none."""
        found = self.at(*path)
        return found if isinstance(found, dict) else {}

    def items(self, *path: str | int) -> Sequence[Value]:
        """Return a list inside; an empty one if there is none."""
        found = self.at(*path)
        return found if isinstance(found, list) else ()

    def texts(self, *path: str | int) -> dict[str, str]:
        """Return the texts of a mapping inside, such as labels."""
        return {key: each for key, each in self.mapping(*path).items() if isinstance(each, str)}

    def problem(self, path: FieldPath, message: str, code: str) -> Problem:
        """Return the problem of a field; code: what Istio's analyzers call the like."""
        return self.document.problem(path, message, code)


def manifest_of(document: Document) -> Manifest | None:
    """Return what a document is; None if it has no kind or no name."""
    value = document.value
    if not isinstance(value, dict):
        return None
    kind, version, metadata = value.get("kind"), value.get("apiVersion"), value.get("metadata")
    if not isinstance(kind, str) or not isinstance(metadata, dict):
        return None
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if not isinstance(name, str):
        return None
    if kind in _CLUSTER_SCOPED:
        namespace = ""
    elif not isinstance(namespace, str) or not namespace:
        namespace = "default"
    group = version.rpartition("/")[0] if isinstance(version, str) else ""
    return Manifest(document=document, group=group, kind=kind, namespace=namespace, name=name)


def manifests_of(documents: Iterable[Document]) -> Iterator[Manifest]:
    """Yield what documents are, without those that have no kind or no name."""
    for each in documents:
        found = manifest_of(each)
        if found is not None:
            yield found
