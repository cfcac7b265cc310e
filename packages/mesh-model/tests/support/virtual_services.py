"""VirtualServices in YAML, as tests of traffic write them."""

from destination_rules import rule
from istio_config import ConfigObject, FileContent, read_object, snapshot_of
from mesh_configfile import read_documents
from mesh_model._model import Facts, MeshModel, build_model

HOST = "s.b.svc.cluster.local"
VERSIONS = rule(
    "subsets:\n- {name: v1, labels: {version: v1}}\n- {name: v2, labels: {version: v2}}"
)
"""The rule that has the subsets v1 and v2 of the service."""


def to(subset: str = "", *, host: str = HOST, weight: int | None = None) -> str:
    """Return a destination."""
    share = f", weight: {weight}" if weight is not None else ""
    return f"{{destination: {{host: {host}, subset: '{subset}'}}{share}}}"


def only(subset: str = "", *, host: str = HOST) -> str:
    """Return the field of a route to one destination."""
    return f"route: [{to(subset, host=host)}]"


def virtual_service(
    *routes: str,
    name: str = "s",
    namespace: str = "b",
    hosts: str = HOST,
    created: str = "",
    more: str = "",
) -> str:
    """Return a VirtualService; routes: the fields of each, in flow style; hosts: may be empty."""
    stamp = f", creationTimestamp: '{created}'" if created else ""
    listed = "".join(f"  - {{{each}}}\n" for each in routes)
    return (
        "apiVersion: networking.istio.io/v1\nkind: VirtualService\n"
        f"metadata: {{name: {name}, namespace: {namespace}{stamp}}}\n"
        "spec:\n"
        + (f"  hosts: [{hosts}]\n" if hosts else "")
        + (f"  {more}\n" if more else "")
        + f"  http:\n{listed}"
    )


def model_of(*texts: str, before: MeshModel | None = None) -> MeshModel:
    """Return the model of documents in YAML."""
    documents, problems = read_documents("---\n".join(texts), file="mesh.yaml")
    read = [read_object(each) for each in documents]
    found = [*problems, *(problem for each in read for problem in each.problems)]
    assert not found, "\n".join(map(str, found))
    objects: list[ConfigObject] = [each.item for each in read if each.item is not None]
    return build_model(
        Facts(snapshot=snapshot_of([FileContent(objects=tuple(objects))])), before=before
    )
