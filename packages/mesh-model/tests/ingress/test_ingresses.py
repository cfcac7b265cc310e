"""Which Ingresses are served, and the Gateways and VirtualServices that they are translated to."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from istio_config import ConfigObject, Snapshot, read_folder
from istio_config.kinds.gateway import GatewaySpec
from istio_config.kinds.virtual_service import HttpRoute, VirtualServiceSpec
from mesh_model._model import Facts, MeshModel, build_model

SERVICES = """
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {ports: [{name: http, port: 80}, {name: http-admin, port: 81}]}
---
apiVersion: v1
kind: Service
metadata: {name: stock, namespace: depot}
spec: {ports: [{name: http, port: 80}]}
"""
ANNOTATED = "annotations: {kubernetes.io/ingress.class: istio}"


def path(text: str, kind: str = "Prefix", *, name: str = "web", port: str = "number: 80") -> str:
    return (
        f"{{path: {text!r}, pathType: {kind}, "
        f"backend: {{service: {{name: {name}, port: {{{port}}}}}}}}}"
    )


def ingress(
    *paths: str,
    name: str = "i",
    namespace: str = "shop",
    host: str = "shop.example",
    meta: str = ANNOTATED,
    more: str = "",
    created: str = "2026-01-01T00:00:00Z",
) -> str:
    at = f"host: {host!r}, " if host else ""
    return f"""
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {{name: {name}, namespace: {namespace}, creationTimestamp: {created!r}, {meta}}}
spec: {{{more} rules: [{{{at}http: {{paths: [{", ".join(paths or (path("/"),))}]}}}}]}}
"""


def ingress_class(name: str, controller: str = "istio.io/ingress-controller") -> str:
    return f"""
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {{name: {name}}}
spec: {{controller: {controller}}}
"""


def mesh_config(text: str) -> str:
    return f"\n---\napiVersion: mesh.istio.io/v1alpha1\nkind: MeshConfig\nspec: {{{text}}}\n"


class Meshes:
    """Meshes of one test, each read from its own text."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def snapshot(self, text: str) -> Snapshot:
        (self._folder / "mesh.yaml").write_text(SERVICES + text)
        read = read_folder(self._folder)
        assert read.problems == ()
        return read.snapshot

    def model(
        self, text: str, *, before: MeshModel | None = None, strict: bool = False
    ) -> MeshModel:
        facts = Facts(snapshot=self.snapshot(text))
        return build_model(facts, before=before, strict_namespaces=strict)


@pytest.fixture
def meshes(tmp_path: Path) -> Meshes:
    return Meshes(tmp_path)


def gateway_specs(model: MeshModel) -> dict[str, GatewaySpec]:
    return {each.key: each.spec for each in model.gateways.gateways}


def routes_of(model: MeshModel, host: str = "shop.example") -> Sequence[HttpRoute]:
    (found,) = (each for each in model.virtual_services.all if each.hosts == (host,))
    return found.spec.http


def order(routes: Sequence[HttpRoute]) -> list[str]:
    """Return each route's condition, `=` before an exact one, and `*` for none."""
    found = []
    for route in routes:
        uri = route.match[0].uri if route.match else None
        found.append("*" if uri is None else f"={uri.exact}" if uri.exact else f"{uri.prefix}")
    return found


def destination(route: HttpRoute) -> tuple[str, int | None]:
    """Return the host and the port of a route's only destination."""
    (found,) = (each.destination for each in route.route)
    assert found is not None
    assert found.port is not None
    return found.host, found.port.number


@pytest.mark.parametrize(
    ("config", "meta", "spec", "objects", "served"),
    [
        ("", ANNOTATED, "", "", True),
        ("", "annotations: {kubernetes.io/ingress.class: nginx}", "", "", False),
        ("ingressClass: edge", ANNOTATED, "", "", False),
        ("ingressControllerMode: 'OFF'", ANNOTATED, "", "", False),
        ("", "", "", "", False),
        ("ingressControllerMode: DEFAULT", "", "", "", True),
        ("ingressControllerMode: 'OFF'", "", "", "", False),
        ("", "", "ingressClassName: edge,", ingress_class("edge"), True),
        (
            "ingressControllerMode: 'OFF'",
            "",
            "ingressClassName: edge,",
            ingress_class("edge"),
            True,
        ),
        ("", "", "ingressClassName: edge,", "", False),
        (
            "ingressControllerMode: DEFAULT",
            "",
            "ingressClassName: edge,",
            ingress_class("edge", "k8s.io/ingress-nginx"),
            False,
        ),
    ],
)
def test_annotation_then_class_then_mode_decide_whether_an_ingress_is_served(
    meshes: Meshes, config: str, meta: str, spec: str, objects: str, *, served: bool
) -> None:
    model = meshes.model(ingress(meta=meta, more=spec) + objects + mesh_config(config))

    assert bool(model.ingresses.gateways) is served
    assert bool(model.virtual_services.all) is served
    assert bool(model.warnings) is not served


def test_an_ingress_that_names_no_class_says_what_to_write(meshes: Meshes) -> None:
    (warning,) = meshes.model(ingress(meta="")).warnings
    assert warning.field == "spec.ingressClassName"
    assert "name an IngressClass with the controller istio.io/ingress-controller" in str(warning)


@pytest.mark.parametrize(
    ("config", "label"),
    [
        ("", "ingressgateway"),
        ("ingressService: istio-ingressgateway", "ingressgateway"),
        ("ingressService: edge", "edge"),
        ("ingressService: edge, ingressSelector: outer", "outer"),
    ],
)
def test_the_routers_are_those_that_the_mesh_config_names(
    meshes: Meshes, config: str, label: str
) -> None:
    model = meshes.model(ingress() + mesh_config(config))
    (spec,) = gateway_specs(model).values()
    assert spec.selector == {"istio": label}


def test_servers_are_for_http_and_for_each_certificate_in_the_root_namespace(
    meshes: Meshes,
) -> None:
    more = "tls: [{hosts: [shop.example], secretName: shop}, {secretName: rest}],"
    model = meshes.model(ingress(more=more) + mesh_config("rootNamespace: edge"))

    (spec,) = gateway_specs(model).values()
    assert list(gateway_specs(model)) == ["edge/i-istio-autogenerated-k8s-ingress-shop"]
    assert [(each.port.number, each.port.name, each.hosts) for each in spec.servers] == [
        (443, "https-443-ingress-i-shop-0", ("shop.example",)),
        (443, "https-443-ingress-i-shop-1", ("*",)),
        (80, "http-80-ingress-i-shop", ("*",)),
    ]
    assert [each.tls.credentials for each in spec.servers if each.tls] == [("shop",), ("rest",)]


def test_the_longest_path_comes_first_and_an_exact_one_before_a_prefix(meshes: Meshes) -> None:
    model = meshes.model(
        ingress(
            path("/", "Prefix"),
            path("/*", "ImplementationSpecific"),
            path("/a/b", "Prefix"),
            path("/a/b", "Exact"),
            path("/a/long/", "Prefix"),
            path("/v/.*", "ImplementationSpecific"),
            path("/v/*", "ImplementationSpecific"),
            path("/v.*", "ImplementationSpecific"),
            path("/v", "ImplementationSpecific"),
        )
    )
    assert order(routes_of(model)) == [
        "/a/long",
        "=/a/b",
        "/a/b",
        "/v",
        "=/v",
        "/v",
        "/v",
        "/",
        "*",
    ]


def test_rules_of_a_host_are_one_table_over_all_ingresses_the_oldest_first(
    meshes: Meshes,
) -> None:
    model = meshes.model(
        ingress(path("/a", port="number: 80"), name="young", created="2026-02-01T00:00:00Z")
        + ingress(path("/a", port="number: 81"), path("/b"), name="old")
    )
    routes = routes_of(model)
    assert order(routes) == ["/a", "/b", "/a"]
    assert [destination(each)[1] for each in routes] == [81, 80, 80]
    (virtual_service,) = model.virtual_services.all
    assert virtual_service.gateways == (
        "istio-system/old-istio-autogenerated-k8s-ingress-shop",
        "istio-system/young-istio-autogenerated-k8s-ingress-shop",
    )


def test_hosts_that_are_spelt_alike_have_virtual_services_of_their_own(meshes: Meshes) -> None:
    text = ingress(host="a-b.example") + "  \n"
    both = text.replace(
        "rules: [", "rules: [{host: a.b.example, http: {paths: [" + path("/") + "]}}, "
    )
    model = meshes.model(both)
    assert {each.hosts for each in model.virtual_services.all} == {
        ("a-b.example",),
        ("a.b.example",),
    }


def test_a_port_is_found_by_its_name_and_what_is_not_there_is_reported(meshes: Meshes) -> None:
    model = meshes.model(
        ingress(
            path("/named", port="name: http-admin"),
            path("/gone", port="name: gone"),
            path("/number", port="number: 90"),
            path("/none", name="none"),
        )
    )
    assert {order([each])[0]: destination(each) for each in routes_of(model)} == {
        "/named": ("web.shop.svc.cluster.local", 81),
        "/number": ("web.shop.svc.cluster.local", 90),
        "/none": ("none.shop.svc.cluster.local", 80),
    }
    assert [each.message for each in model.warnings] == [
        (
            'web.shop.svc.cluster.local has no port "gone"; it has http, http-admin: the rule has '
            "no effect, and its requests go to the next one that matches"
        ),
        "web.shop.svc.cluster.local has no port 90; it has 80, 81: requests are answered with 503",
        "there is no Service shop/none: requests are answered with 503",
    ]


def test_a_resource_is_no_backend(meshes: Meshes) -> None:
    resource = "{path: /r, pathType: Exact, backend: {resource: {kind: Bucket, name: b}}}"
    model = meshes.model(ingress(resource, path("/")))
    assert order(routes_of(model)) == ["/"]


TLS = "tls: [{{hosts: [shop.example], secretName: {}}}],"


def test_the_oldest_ingress_has_the_certificate_of_a_host_and_serves_all_its_rules(
    meshes: Meshes,
) -> None:
    old = ingress(name="old", more=TLS.format("shop"))
    same = ingress(path("/b"), name="same", more=TLS.format("shop"), created="2026-02-01T00:00:00Z")
    other = ingress(path("/c"), name="other", more=TLS.format("c"), created="2026-03-01T00:00:00Z")
    model = meshes.model(old + same + other)

    ports = {
        key.partition("/")[2].partition("-")[0]: [each.port.number for each in spec.servers]
        for key, spec in gateway_specs(model).items()
    }
    assert ports == {"old": [443, 80], "same": [80], "other": [80]}
    assert [each.message for each in model.warnings if each.field.startswith("spec.tls[0].h")] == [
        (
            "the Ingress shop/old has another certificate for shop.example, the Secret shop, and "
            "is older: that one is served"
        )
    ]


def test_a_secret_that_routers_can_not_have_is_reported(meshes: Meshes) -> None:
    model = meshes.model(ingress(more=TLS.format("shop")))
    (warning,) = model.warnings
    assert warning.field == "spec.tls[0].secretName"
    assert 'there is no Secret "shop" in any namespace' in warning.message


def test_strict_namespaces_serve_their_own_hosts_alone(meshes: Meshes) -> None:
    owner = """
---
apiVersion: v1
kind: Namespace
metadata: {name: shop, annotations: {mesh-discovery/hosts: "shop.example"}}
"""
    theft = ingress(
        path("/", name="stock"), name="theft", namespace="depot", more=TLS.format("theft")
    )
    text = owner + ingress(path("/a")) + theft
    assert order(routes_of(meshes.model(text))) == ["/a", "/"]

    model = meshes.model(text, strict=True)

    assert order(routes_of(model)) == ["/a"]
    assert [
        each.port.number for spec in gateway_specs(model).values() for each in spec.servers
    ] == [
        80,
        80,
    ]
    withheld = [each.field for each in model.warnings if "no host of namespace depot" in str(each)]
    assert sorted(withheld) == ["spec.rules[0].host", "spec.tls[0].hosts[0]"]


def test_what_an_edit_does_not_touch_is_the_same_object(meshes: Meshes) -> None:
    one, other = ingress(name="one", host="one.example"), ingress(name="other", host="x.example")
    before = meshes.model(one + other)
    edited = ingress(path("/new"), name="other", host="x.example")

    after = meshes.model(one + edited, before=before)

    def by_host(model: MeshModel) -> dict[str, ConfigObject]:
        return {
            each.spec.hosts[0]: each
            for each in model.ingresses.virtual_services
            if isinstance(each.spec, VirtualServiceSpec)
        }

    assert by_host(after)["one.example"] is by_host(before)["one.example"]
    assert order(routes_of(after, "x.example")) == ["/new"]
    kinds = {key[0] for key in after.rules.differing(before.rules)}
    assert kinds == {"VirtualService.networking.istio.io"}


@pytest.mark.parametrize(
    "edit",
    [
        mesh_config("ingressService: edge"),
        ingress_class("edge"),
        (
            "\n---\napiVersion: v1\nkind: Service\nmetadata: {name: late, namespace: shop}\n"
            "spec: {ports: [{name: web, port: 82}]}\n"
        ),
    ],
)
def test_an_edited_mesh_is_translated_as_from_the_start(meshes: Meshes, edit: str) -> None:
    text = ingress(path("/late", name="late", port="name: web"), path("/")) + ingress(
        name="classed", host="classed.example", meta="", more="ingressClassName: edge,"
    )
    before = meshes.model(text)

    after = meshes.model(text + edit, before=before)

    fresh = meshes.model(text + edit)
    assert after.ingresses.gateways == fresh.ingresses.gateways
    assert after.ingresses.virtual_services == fresh.ingresses.virtual_services
    assert after.warnings == fresh.warnings
    assert (after.ingresses.gateways, after.ingresses.virtual_services) != (
        before.ingresses.gateways,
        before.ingresses.virtual_services,
    )
