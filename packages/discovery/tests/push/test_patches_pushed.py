"""A change of an EnvoyFilter is pushed to the proxies that it is for, in what it patches."""

from pathlib import Path
from typing import Any

import pytest

from envoy_config import Proxy
from patch_documents import adding, before_router, envoy_filter, lua_filter, patch, response_header
from pushed_meshes import Mesh, sidecar

SERVICE = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: a}
spec:
  hosts: [web.a.svc.cluster.local]
  addresses: [10.1.0.1]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}]
  endpoints: [{address: 10.0.0.1}]
"""
LISTENERS = before_router(lua_filter(adding("x-a", "b")), "ANY")
CLUSTERS = patch("CLUSTER", "MERGE", {"connect_timeout": "3s"})
ROUTES = patch("VIRTUAL_HOST", "MERGE", response_header("a"), context="SIDECAR_OUTBOUND")
EXTENSIONS = patch("EXTENSION_CONFIG", "ADD", {"name": "a", **lua_filter("x")} | {"name": "a"})


def some(patched: dict[str, Any], namespace: str = "a", **spec: Any) -> str:
    selector = {"labels": {"app": "some"}}
    return envoy_filter("some", patched, namespace=namespace, workloadSelector=selector, **spec)


@pytest.fixture(name="proxies")
def _proxies() -> dict[str, Proxy]:
    labels = {"app": "some"}
    return {
        "some": sidecar("a", labels=labels),
        "unlabelled": sidecar("a"),
        "elsewhere": sidecar("b", labels=labels),
    }


@pytest.mark.parametrize(
    ("patched", "types"),
    [
        (LISTENERS, {"LDS"}),
        (CLUSTERS, {"CDS"}),
        (ROUTES, {"RDS", "LDS"}),
        (EXTENSIONS, set()),
    ],
)
def test_selected_proxies_are_sent_what_is_patched_and_when_it_is_no_longer(
    patched: dict[str, Any], types: set[str], proxies: dict[str, Proxy], tmp_path: Path
) -> None:
    mesh = Mesh(tmp_path, web=SERVICE)
    mesh.connect(*proxies.values())
    for change in ({"filters": some(patched)}, {"filters": None}):
        done = mesh.change(**change)
        assert done.sent_to(proxies["some"]) <= types
        assert bool(done.sent_to(proxies["some"])) is bool(types)
        assert not done.sent_to(proxies["unlabelled"])
        assert not done.sent_to(proxies["elsewhere"])


def test_patches_of_the_root_namespace_are_for_all_namespaces(
    proxies: dict[str, Proxy], tmp_path: Path
) -> None:
    mesh = Mesh(tmp_path, web=SERVICE)
    mesh.connect(*proxies.values())
    done = mesh.change(filters=some(CLUSTERS, "istio-system"))
    pushed = {name: done.sent_to(each) for name, each in proxies.items()}
    assert pushed == {"some": {"CDS"}, "unlabelled": set(), "elsewhere": {"CDS"}}


def test_another_selection_is_pushed_to_those_that_were_selected(
    proxies: dict[str, Proxy], tmp_path: Path
) -> None:
    mesh = Mesh(tmp_path, web=SERVICE, filters=some(CLUSTERS))
    mesh.connect(*proxies.values())
    done = mesh.change(filters=some(CLUSTERS).replace("app: some", "app: other"))
    assert done.sent_to(proxies["some"]) == {"CDS"}


def test_another_priority_is_pushed(proxies: dict[str, Proxy], tmp_path: Path) -> None:
    first, second = (before_router(lua_filter(adding("x", each)), "ANY") for each in "ab")
    mesh = Mesh(tmp_path, web=SERVICE, one=some(first), two=some(second).replace("some", "two", 1))
    mesh.connect(*proxies.values())
    done = mesh.change(one=some(first, priority=1))
    assert done.sent_to(proxies["some"]) == {"LDS"}


def test_a_new_service_is_patched_and_pushed(proxies: dict[str, Proxy], tmp_path: Path) -> None:
    mesh = Mesh(tmp_path, web=SERVICE, filters=some(CLUSTERS))
    mesh.connect(*proxies.values())
    more = SERVICE.replace("web", "more").replace("10.1.0.1", "10.1.0.2")
    done = mesh.change(more=more)
    assert {"CDS", "RDS"} <= done.sent_to(proxies["some"])
    assert "CDS outbound|80||more.a.svc.cluster.local" in done.resources[proxies["some"]]
    changed = [each for each in done.resources[proxies["some"]] if each.startswith("CDS")]
    assert len(changed) == 1
