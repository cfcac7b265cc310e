"""Which Gateways a router opens, and which of two meshes differ."""

from istio_config import ConfigObject, InFile
from istio_config.kinds.gateway import GatewaySpec
from mesh_model._gateways import OF_SERVICES, OWN_NAMESPACE, Gateways


def gateway(
    name: str,
    selector: dict[str, str] | None = None,
    *,
    namespace: str = "shop",
    annotations: tuple[tuple[str, str], ...] = (),
) -> ConfigObject:
    return ConfigObject(
        kind="Gateway",
        group="networking.istio.io",
        namespace=namespace,
        name=name,
        spec=GatewaySpec(selector=selector or {}),
        annotations=annotations,
        origin=InFile("gw.yaml", 1),
    )


LABELS = (("app", "gw"), ("istio", "ingress"))


def test_router_opens_the_gateways_whose_selector_is_among_its_labels() -> None:
    gateways = Gateways.build(
        [
            gateway("fits", {"istio": "ingress"}),
            gateway("other", {"istio": "egress"}),
            gateway("more", {"istio": "ingress", "tier": "1"}),
            gateway("elsewhere", {"app": "gw"}, namespace="elsewhere"),
            gateway("all"),
        ],
        own_namespace_only=False,
    )
    found = gateways.of_router("shop", LABELS)
    assert [each.key for each in found] == ["shop/fits", "elsewhere/elsewhere", "shop/all"]


def test_gateways_of_their_own_namespace_alone_are_for_no_router_elsewhere() -> None:
    marked = gateway("marked", {"app": "gw"}, namespace="elsewhere", annotations=(OWN_NAMESPACE,))
    assert Gateways.build([marked], own_namespace_only=False).of_router("shop", LABELS) == ()
    assert Gateways.build([marked], own_namespace_only=False).of_router("elsewhere", LABELS)
    scoped = Gateways.build([gateway("gw", namespace="elsewhere")], own_namespace_only=True)
    assert scoped.of_router("shop", LABELS) == ()
    assert scoped.of_router("elsewhere", LABELS)


def test_gateway_of_services_is_for_the_routers_that_serve_them() -> None:
    named = gateway("gw", {"x": "y"}, annotations=((OF_SERVICES, "a.example, B.example"),))
    gateways = Gateways.build([named], own_namespace_only=False)
    assert gateways.of_router("any", (), {"b.example"})
    assert gateways.of_router("any", LABELS, {"c.example"}) == ()


def test_gateways_of_the_same_objects_are_kept() -> None:
    objects = (gateway("a"), gateway("b"))
    gateways = Gateways.build(objects, own_namespace_only=False)
    assert Gateways.build(list(objects), gateways, own_namespace_only=False) is gateways
    assert Gateways.build(objects[:1], gateways, own_namespace_only=False) is not gateways
    assert (
        Gateways.build((gateway("a"), objects[1]), gateways, own_namespace_only=False)
        is not gateways
    )


def test_gateways_that_differ_are_named() -> None:
    before = Gateways.build([gateway("a"), gateway("b"), gateway("c")], own_namespace_only=False)
    after = Gateways.build(
        [gateway("a"), gateway("b", {"x": "y"}), gateway("d")], own_namespace_only=False
    )
    assert before.differing(after) == {("shop", "b"), ("shop", "c"), ("shop", "d")}
    assert (
        before.differing(
            Gateways.build([gateway("a"), gateway("b"), gateway("c")], own_namespace_only=False)
        )
        == frozenset()
    )
    reordered = Gateways.build([gateway("b"), gateway("a"), gateway("c")], own_namespace_only=False)
    assert before.differing(reordered) == {("shop", "a"), ("shop", "b"), ("shop", "c")}
