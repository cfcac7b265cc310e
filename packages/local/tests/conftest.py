"""Mesh files and plans for the tests."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mesh_local import Block, MeshFile, MeshPlan, parse_mesh_file, plan_mesh

SHOP = """\
mesh:
  name: shop
  trustDomain: example.org
  certificateLifetime: 30m
workloads:
  - name: backend
    namespace: shop
    replicas: 2
    ports:
      - port: 8080
      - {port: 9000, name: data, protocol: tcp}
    command: [python3, backend.py]
    labels: {version: v1}
  - name: frontend
    namespace: shop
    serviceAccount: web
    ports: [{port: 8080}]
    command: [./frontend]
    env: {GREETING: hello}
  - name: visitor
checks:
  - name: the frontend answers
    from: user
    request: GET http://frontend.shop:8080/
    expect: {status: 200}
  - name: backend by short name
    from: frontend
    request: GET http://backend:8080/a?b=c
    expect: {status: 200, caller: "spiffe://example.org/ns/shop/sa/web"}
  - name: no certificate
    from: outsider
    request: GET http://backend.shop:8080/
    expect: {refused: true}
"""


@pytest.fixture
def parse(tmp_path: Path) -> Callable[[str], MeshFile]:
    """Read YAML text as the mesh file `mesh.yaml`."""

    def read(text: str) -> MeshFile:
        return parse_mesh_file(text, path=tmp_path / "mesh.yaml")

    return read


@pytest.fixture
def shop(parse: Callable[[str], MeshFile]) -> MeshFile:
    """Read the mesh file that most tests use."""
    return parse(SHOP)


@pytest.fixture
def plan(shop: MeshFile) -> MeshPlan:
    """Plan that mesh in block 64."""
    return plan_mesh(shop, Block(number=64))
