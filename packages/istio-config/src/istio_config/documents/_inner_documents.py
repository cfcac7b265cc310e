"""Documents inside others: the items of a list, and the mesh config of an IstioOperator."""

from collections.abc import Iterator

from mesh_configfile import Document


def mesh_config_in(document: Document) -> Document:
    """Return the mesh config in an IstioOperator, or else the document itself."""
    value = document.value
    if not isinstance(value, dict) or value.get("kind") != "IstioOperator":
        return document
    spec = value.get("spec")
    has_one = isinstance(spec, dict) and isinstance(spec.get("meshConfig"), dict)
    return document.part("spec", "meshConfig") if has_one else document


def documents_of(document: Document) -> Iterator[Document]:
    """Yield the documents in a `List` of Kubernetes, such as `kubectl get -o yaml` prints."""
    value = document.value
    if not isinstance(value, dict) or not isinstance(value.get("items"), list):
        yield document
        return
    kind = value.get("kind")
    if not isinstance(kind, str) or not kind.endswith("List"):
        yield document
        return
    items = value["items"]
    for index in range(len(items) if isinstance(items, list) else 0):
        yield from documents_of(document.part("items", index))
