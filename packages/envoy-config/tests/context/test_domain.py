"""A mesh with a domain of its own: it completes short names in rules, as hosts of services."""

from collections.abc import Callable

import pytest

from envoy_config import Proxy, PushContext
from mesh_model import MeshModel
from proxies import proxy_of
from short_names import DOMAIN, MESH
from xds_server import Node

Build = Callable[..., MeshModel]
HOST = f"reviews.a.svc.{DOMAIN}"


def client(namespace: str = "a") -> Proxy:
    return proxy_of(Node(id=f"sidecar~10.0.0.1~p.{namespace}~{namespace}.svc.{DOMAIN}"))


@pytest.mark.parametrize("strict", [False, True])
def test_routes_and_rules_of_short_names_have_an_effect(model_of: Build, *, strict: bool) -> None:
    context = PushContext(model_of(MESH, domain=DOMAIN, strict_namespaces=strict))
    proxy = client("b")
    clusters = {each.name for each in context.clusters(proxy).resources}
    assert f"outbound|80|v1|{HOST}" in clusters
    (routes,) = context.routes(proxy, frozenset({"80"})).resources
    assert f"outbound|80|v1|{HOST}".encode() in routes.body
