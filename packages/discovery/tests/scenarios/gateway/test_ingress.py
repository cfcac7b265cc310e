"""Kubernetes' Ingresses at a real Envoy: which Service requests from outside get to."""

from dataclasses import dataclass

import aiohttp
import pytest

from gateway_documents import secret
from gateway_scenes import client_context, fails_to_shake_hands
from scenarios import Echo, MeshEnvoy, Scene

ROOT = "istio-system"
SERVICE = """
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  hosts: [{name}.{namespace}.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{ports}]
  endpoints: [{{address: {address}}}]
"""
PORT = "{{number: {}, name: {}, protocol: {}, targetPort: {}}}"
CLASS = """
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: edge}
spec: {controller: istio.io/ingress-controller}
"""


def service(name: str, echo: Echo) -> str:
    ports = PORT.format(80, "http", "HTTP", echo.port)
    return SERVICE.format(name=name, namespace="shop", ports=ports, address=echo.address)


def path(text: str, kind: str, service_name: str, port: str = "number: 80") -> str:
    return (
        f"{{path: {text!r}, pathType: {kind}, "
        f"backend: {{service: {{name: {service_name}, port: {{{port}}}}}}}}}"
    )


def ingress(*paths: str, name: str = "shop", host: str = "shop.example", more: str = "") -> str:
    at = f"host: {host!r}, " if host else ""
    return (
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\n"
        f"metadata: {{name: {name}, namespace: shop}}\n"
        f"spec: {{ingressClassName: edge, {more} "
        f"rules: [{{{at}http: {{paths: [{', '.join(paths)}]}}}}]}}\n"
    )


@dataclass(frozen=True)
class Edge:
    """A router for Ingresses, whose Service has the ports 80 and 443, and the Services a and b."""

    router: MeshEnvoy
    plain: int
    secure: int

    async def version(self, text: str = "/", host: str = "shop.example") -> str:
        """Return the version of the service that answered, or else the status."""
        url = f"http://{host}:{self.plain}{text}"
        answer = await self.router.get(url, headers={"host": host})
        return answer.version or str(answer.status)


async def opened_edge(scene: Scene) -> Edge:
    a, b = await scene.echo("a"), await scene.echo("b")
    router = await scene.router(namespace=ROOT)
    plain, secure = scene.port(), scene.port()
    ports = ", ".join(
        (PORT.format(80, "http", "HTTP", plain), PORT.format(443, "https", "HTTPS", secure))
    )
    edge = SERVICE.format(
        name="istio-ingressgateway", namespace=ROOT, ports=ports, address=router.address
    )
    await scene.apply(edge=edge, a=service("a", a), b=service("b", b), edge_class=CLASS)
    return Edge(router, plain, secure)


async def test_paths_of_a_host_lead_to_their_services_and_edits_move_them(scene: Scene) -> None:
    edge = await opened_edge(scene)
    await scene.apply(
        shop=ingress(
            path("/", "Prefix", "a"),
            path("/b", "Prefix", "b", "name: http"),
            path("/b/exact", "Exact", "a"),
            path("/any/*", "ImplementationSpecific", "b"),
            path("/one", "ImplementationSpecific", "b"),
            path("/gone", "Prefix", "gone"),
        )
    )
    found = {
        each: await edge.version(each)
        for each in ("/", "/b", "/b/", "/b/x", "/bx", "/b/exact", "/b/exact/x", "/any/x", "/one")
    }
    assert found == {
        "/": "a",
        "/b": "b",
        "/b/": "b",
        "/b/x": "b",
        "/bx": "a",
        "/b/exact": "a",
        "/b/exact/x": "b",
        "/any/x": "b",
        "/one": "b",
    }
    assert await edge.version("/one/x") == "a"
    assert await edge.version(host="other.example") == "404"
    assert await edge.version("/gone") == "503"

    await scene.apply(
        shop=ingress(path("/", "Prefix", "b")),
        rest=ingress(path("/rest", "Prefix", "a"), name="rest", host=""),
    )
    assert await edge.version() == "b"
    assert await edge.version("/rest") == "b"
    assert await edge.version("/rest", host="other.example") == "a"
    assert await edge.version("/", host="other.example") == "404"

    await scene.apply(shop=None)
    assert await edge.version("/rest") == "a"


async def test_https_has_the_certificate_of_its_host_and_all_rules_of_the_host(
    scene: Scene,
) -> None:
    edge = await opened_edge(scene)
    tls = "tls: [{hosts: [shop.example], secretName: shop}],"
    await scene.apply(
        secret=secret("shop", scene.authority.issue("shop.example"), namespace=ROOT),
        shop=ingress(path("/", "Prefix", "a"), more=tls),
        also=ingress(path("/b", "Prefix", "b"), name="also", more=tls),
    )
    context = client_context(scene.authority, scene.tmp_path)

    url = f"https://shop.example:{edge.secure}"
    found = {each: await edge.router.get(url + each, ssl=context) for each in ("/", "/b")}
    assert {key: each.version for key, each in found.items()} == {"/": "a", "/b": "b"}
    assert found["/"].seen.headers["x-forwarded-proto"] == "https"
    assert [await edge.version(each) for each in ("/", "/b")] == ["a", "b"]
    other = f"https://other.example:{edge.secure}/"
    assert await fails_to_shake_hands(edge.router, other, context)


async def test_the_mesh_config_decides_which_ingresses_are_served(scene: Scene) -> None:
    edge = await opened_edge(scene)
    unclassed = ingress(path("/", "Prefix", "a")).replace("ingressClassName: edge, ", "")
    await scene.apply(shop=unclassed)
    with pytest.raises(aiohttp.ClientConnectionError):
        await edge.version()

    config = "apiVersion: mesh.istio.io/v1alpha1\nkind: MeshConfig\nspec: {{{}}}\n"
    await scene.apply(mesh_config=config.format("ingressControllerMode: DEFAULT"))
    assert await edge.version() == "a"
