"""The older of two objects: between namespaces their authors have no say in it."""

from pathlib import Path

import pytest

from documents import entry
from istio_config import Snapshot
from mesh_model import Facts, build_model, visible_services
from models import EditedFolder

GATEWAY = """\
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {{name: {name}, namespace: {namespace}{date}}}
spec:
  selector: {{istio: ingressgateway}}
  servers:
  - port: {{number: 443, name: https, protocol: HTTPS}}
    hosts: [shop.example]
    tls: {{mode: SIMPLE, credentialName: {namespace}}}
"""
NAMESPACE = """\
apiVersion: v1
kind: Namespace
metadata: {{name: {name}{date}}}
"""
ROOT = """\
apiVersion: mesh.istio.io/v1alpha1
kind: MeshConfig
metadata: {name: mesh}
spec: {rootNamespace: zz-root}
"""
HOST = "hosts: [shop.example], ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS"


def dated(date: str) -> str:
    return f', creationTimestamp: "{date}"' if date else ""


def gateway(namespace: str, date: str = "", name: str = "gw") -> str:
    return GATEWAY.format(name=name, namespace=namespace, date=dated(date))


def namespace(name: str, date: str) -> str:
    return NAMESPACE.format(name=name, date=dated(date))


class Mesh:
    """A directory that is read again and again."""

    def __init__(self, directory: Path, *, believe: bool = False) -> None:
        self.directory = directory
        self.believe = believe
        self.folder = EditedFolder(directory, believe_timestamps=believe)
        self.folder.load()

    def write(self, **documents: str) -> None:
        for name, text in documents.items():
            (self.directory / f"{name}.yaml").write_text(text)

    def snapshot(self) -> Snapshot:
        snapshot = self.folder.load()
        fresh = EditedFolder(self.directory, believe_timestamps=self.believe).load()
        assert snapshot == fresh  # however it came about
        return snapshot

    def gateways(self) -> list[str]:
        """Return the Gateways in the order in which they get what they want."""
        return [each.key for each in build_model(Facts(snapshot=self.snapshot())).gateways.gateways]


@pytest.fixture
def mesh(tmp_path: Path) -> Mesh:
    return Mesh(tmp_path)


def test_a_namespace_does_not_date_itself_before_another(mesh: Mesh) -> None:
    mesh.write(owner=gateway("shop", "2024-01-01T00:00:00Z"))
    assert mesh.gateways() == ["shop/gw"]

    mesh.write(thief=gateway("thief", "2020-01-01T00:00:00Z"))

    assert mesh.gateways() == ["shop/gw", "thief/gw"]


def test_nor_by_a_name_of_its_choice(mesh: Mesh) -> None:
    mesh.write(owner=gateway("shop"), thief=gateway("thief", name="aaa"))

    assert mesh.gateways() == ["shop/gw", "thief/aaa"]


def test_a_host_stays_with_its_owner(mesh: Mesh) -> None:
    mesh.write(
        owner=entry("shop", HOST, namespace="shop", created="2024-01-01T00:00:00Z"),
        thief=entry("a", HOST, namespace="thief", created="2020-01-01T00:00:00Z"),
    )
    services = build_model(Facts(snapshot=mesh.snapshot())).services

    assert visible_services(services, "client")["shop.example"].namespace == "shop"


def test_within_a_namespace_its_own_dates_count(mesh: Mesh) -> None:
    mesh.write(
        one=gateway("shop", "2024-01-01T00:00:00Z", name="a"),
        two=gateway("shop", "2020-01-01T00:00:00Z", name="b"),
        three=gateway("shop", name="c"),
    )

    assert mesh.gateways() == ["shop/b", "shop/a", "shop/c"]


def test_the_root_namespace_comes_first_whatever_it_is_called(mesh: Mesh) -> None:
    mesh.write(
        root=gateway("istio-system"),
        other=gateway("zz-root"),
        tenant=gateway("aaa", "2020-01-01T00:00:00Z"),
    )
    assert mesh.gateways() == ["istio-system/gw", "aaa/gw", "zz-root/gw"]

    mesh.write(mesh=ROOT)

    assert mesh.gateways() == ["zz-root/gw", "aaa/gw", "istio-system/gw"]


def test_the_older_namespace_comes_first_by_its_own_object(mesh: Mesh) -> None:
    mesh.write(
        old=namespace("shop", "2020-01-01T00:00:00Z"),
        new=namespace("aaa", "2024-01-01T00:00:00Z"),
        one=gateway("shop", "2024-05-01T00:00:00Z"),
        two=gateway("aaa", "2019-01-01T00:00:00Z"),
        three=gateway("undated"),
    )
    assert mesh.gateways() == ["shop/gw", "aaa/gw", "undated/gw"]

    mesh.write(old=namespace("shop", "2025-01-01T00:00:00Z"))

    assert mesh.gateways() == ["aaa/gw", "shop/gw", "undated/gw"]


def test_all_dates_can_be_believed(tmp_path: Path) -> None:
    mesh = Mesh(tmp_path, believe=True)
    mesh.write(
        one=gateway("shop", "2024-01-01T00:00:00Z"),
        two=gateway("thief", "2020-01-01T00:00:00Z"),
        three=gateway("aaa"),
    )

    assert mesh.gateways() == ["thief/gw", "shop/gw", "aaa/gw"]
    assert mesh.snapshot().notes == ()


def test_it_is_reported_once_that_dates_do_not_count_between_namespaces(mesh: Mesh) -> None:
    def notes() -> list[str]:
        return [str(each) for each in mesh.snapshot().notes]

    mesh.write(one=gateway("shop", "2024-01-01T00:00:00Z"), two=gateway("thief"))
    assert notes() == []

    mesh.write(two=gateway("thief", "2020-01-01T00:00:00Z"))
    (note,) = notes()
    assert (
        "two.yaml:1: metadata.creationTimestamp: is compared with that of objects of thief only"
        in note
    )

    mesh.write(two=gateway("thief"))
    assert notes() == []
