"""A mesh with a domain of its own: it completes short names in rules, as hosts of services."""

from pathlib import Path

import pytest

from mesh_discovery._check import check_configuration
from mesh_discovery.model._facts import Facts
from mesh_discovery.model._model import MeshModel, build_model
from mesh_discovery.plan._proxy import Proxy
from mesh_discovery.plan.reachability._judgement import judge
from mesh_discovery.push.context._context import PushContext
from mesh_discovery.sources.files._loader import ConfigLoader
from proxies import proxy_of
from xds_server import Node

DOMAIN = "corp.example"
HOST = f"reviews.a.svc.{DOMAIN}"
MESH = """\
apiVersion: v1
kind: Service
metadata: {name: reviews, namespace: a}
spec: {clusterIP: 10.96.0.7, ports: [{port: 80, name: http}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: reviews, namespace: a}
spec: {host: reviews, subsets: [{name: v1, labels: {version: v1}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews, namespace: a}
spec:
  hosts: [reviews]
  http: [{timeout: 3s, route: [{destination: {host: reviews, subset: v1}}]}]
"""


def model_of(directory: Path, text: str = MESH, *, strict: bool = False) -> MeshModel:
    (directory / "mesh.yaml").write_text(text)
    load = ConfigLoader(directory).load()
    assert not load.problems
    return build_model(Facts(snapshot=load.snapshot), domain=DOMAIN, strict_namespaces=strict)


def client(namespace: str = "a") -> Proxy:
    return proxy_of(Node(id=f"sidecar~10.0.0.1~p.{namespace}~{namespace}.svc.{DOMAIN}"))


def test_check_finds_the_service_that_short_names_mean(tmp_path: Path) -> None:
    (tmp_path / "mesh.yaml").write_text(MESH)
    checked = check_configuration(tmp_path, domain=DOMAIN)
    assert [str(each) for each in (*checked.problems, *checked.unreachable)] == []
    assert [str(each) for each in checked.warnings] == []


@pytest.mark.parametrize("strict", [False, True])
def test_routes_and_rules_of_short_names_have_an_effect(tmp_path: Path, *, strict: bool) -> None:
    context = PushContext(model_of(tmp_path, strict=strict))
    proxy = client("b")
    clusters = {each.name for each in context.clusters(proxy).resources}
    assert f"outbound|80|v1|{HOST}" in clusters
    (routes,) = context.routes(proxy, frozenset({"80"})).resources
    assert f"outbound|80|v1|{HOST}".encode() in routes.body


@pytest.mark.parametrize("strict", [False, True])
def test_a_destination_that_is_missing_is_told_with_the_domain(
    tmp_path: Path, *, strict: bool
) -> None:
    text = MESH.replace("{host: reviews, subset: v1}", "{host: ratings}")
    told = [each.message for each in judge(model_of(tmp_path, text, strict=strict)).problems]
    assert len(told) == 1
    assert f"there is no service ratings.a.svc.{DOMAIN}:" in told[0]


def test_hosts_of_another_domain_are_not_a_namespaces_own(tmp_path: Path) -> None:
    """The form of a host says whose it is only in the domain of the mesh."""
    owners = model_of(tmp_path, strict=True).owners
    assert owners.govern("a", HOST)
    assert not owners.govern("a", "reviews.a.svc.cluster.local")
