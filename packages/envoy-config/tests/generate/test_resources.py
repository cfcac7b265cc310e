"""All resources of a sidecar: in full for the smallest mesh, and what each case adds to them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envoy_config.context._context import PushContext
from mesh_model import MeshModel
from mesh_testkit import Golden
from proxies import as_json, proxy

CASES = Path(__file__).parent / "cases"
BASE = (CASES / "base.yaml").read_text()
ADDED = sorted(path.stem for path in CASES.glob("*.yaml") if path.stem != "base")


def resources(model: MeshModel) -> dict[str, list[Any]]:
    context = PushContext(model)
    sidecar = proxy(LABELS={"app": "web"})
    clusters = as_json(context.clusters(sidecar))
    listeners = as_json(context.listeners(sidecar))
    endpoints = frozenset(each["name"] for each in clusters if each.get("type") == "EDS")
    ports = frozenset(each["name"].rpartition("_")[2] for each in listeners)
    return {
        "clusters": clusters,
        "endpoints": as_json(context.endpoints(sidecar, endpoints)),
        "listeners": listeners,
        "routes": [
            each
            for each in as_json(context.routes(sidecar, ports | {"http_proxy"}))
            if len(each["virtual_hosts"]) > 1
        ],
    }


def test_a_sidecar_of_the_smallest_mesh_is_given(
    model_of: Callable[..., MeshModel], golden: Golden
) -> None:
    golden("base.json", resources(model_of(BASE)))


@pytest.mark.parametrize("case", ADDED)
def test_a_sidecar_is_given_besides(
    case: str, model_of: Callable[..., MeshModel], golden: Golden
) -> None:
    added = (CASES / f"{case}.yaml").read_text()

    golden(f"{case}.json", resources(model_of(BASE, added)), base=resources(model_of(BASE)))
