"""Any objects that are right by themselves, as a mesh: a model, whatever they say together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from istio_config import read_content, snapshot_of
from mesh_model import Facts, build_model, scope_of

_ROOT = Path(__file__).parents[3]
_LONGEST_BYTES = 20_000


def check(data: bytes) -> None:
    """Objects without mistakes make a model, and each service's own namespace has a scope."""
    content = read_content(data, file="fuzz.yaml")
    if not content.objects or content.problems:
        return
    model = build_model(Facts(snapshot=snapshot_of([content])))
    for namespace in {each.namespace for each in model.services}:
        assert scope_of(model, namespace=namespace).key.namespace == namespace


def originals() -> Iterator[bytes]:
    """The rules of the examples and a small cluster, each file as a whole."""
    found = [*_ROOT.glob("examples/*/rules/*.yaml"), *_ROOT.glob("examples/*/steps/*.yaml")]
    for file in (*sorted(found), _ROOT / "packages/istio-config/tests/support/cluster.yaml"):
        yield file.read_bytes()[:_LONGEST_BYTES].rpartition(b"\n---\n")[0] or file.read_bytes()
