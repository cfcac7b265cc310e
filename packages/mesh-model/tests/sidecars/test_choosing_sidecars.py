"""Which Sidecar object a proxy has."""

from istio_config import ConfigObject, InFile
from istio_config.kinds.service_entry import Selector
from istio_config.kinds.sidecar import SIDECAR, EgressListener, SidecarSpec
from mesh_model.sidecars._sidecars import Sidecars


def sidecar(name: str, namespace: str, labels: dict[str, str] | None = None) -> ConfigObject:
    return ConfigObject(
        kind=SIDECAR.name,
        group=SIDECAR.group,
        namespace=namespace,
        name=name,
        spec=SidecarSpec(
            workload_selector=Selector(labels=labels) if labels is not None else None,
            egress=(EgressListener(hosts=("./*",)),),
        ),
        origin=InFile("x.yaml", 1),
    )


WEB = (("app", "web"), ("version", "v1"))


def chosen(objects: list[ConfigObject], namespace: str = "shop") -> str | None:
    key = Sidecars.build(objects, root_namespace="root").choose(namespace, WEB)
    return "/".join(key) if key is not None else None


def test_one_that_selects_the_workload_comes_before_one_for_the_whole_namespace() -> None:
    assert (
        chosen(
            [
                sidecar("all", "shop"),
                sidecar("other", "shop", {"app": "db"}),
                sidecar("web", "shop", {"app": "web"}),
                sidecar("web-v1", "shop", {"app": "web", "version": "v1"}),
            ]
        )
        == "shop/web"
    )


def test_the_oldest_for_the_namespace_comes_before_that_of_the_root_namespace() -> None:
    objects = [
        sidecar("mesh", "root"),
        sidecar("first", "shop"),
        sidecar("second", "shop"),
    ]

    assert chosen(objects) == "shop/first"
    assert chosen(objects, "other") == "root/mesh"


def test_one_of_the_root_namespace_with_labels_is_for_the_root_namespace_only() -> None:
    objects = [sidecar("web", "root", {"app": "web"})]

    assert chosen(objects) is None
    assert chosen(objects, "root") == "root/web"


def test_without_any_there_is_none() -> None:
    assert chosen([]) is None
    assert chosen([sidecar("web", "shop", {"app": "db"})]) is None


def test_the_same_objects_give_the_same_sidecars() -> None:
    objects = [sidecar("all", "shop")]
    before = Sidecars.build(objects, root_namespace="root")

    assert Sidecars.build(list(objects), root_namespace="root", before=before) is before
    assert Sidecars.build(objects, root_namespace="other", before=before) is not before
    assert Sidecars.build([], root_namespace="root", before=before) is not before
