"""Routes whose parent is a service, at the sidecars of its clients, and what status says."""

from typing import Any

from gateway_api_scenes import alias, opened_site, route, service
from scenarios import MeshEnvoy, Scene

PARENT = '{group: "", kind: Service, name: s}'
TO_A, TO_B = "backendRefs: [{name: a, port: 80}]", "backendRefs: [{name: b, port: 80}]"


async def opened_mesh(scene: Scene, *namespaces: str) -> list[MeshEnvoy]:
    """Start a client in each namespace, and the services s, a and b in namespace b."""
    versions = {name: await scene.echo(name) for name in ("s", "a", "b")}
    await scene.apply(**{name: service(name, echo) for name, echo in versions.items()})  # type: ignore[arg-type]
    return [await scene.sidecar(namespace=each, service_account=each) for each in namespaces]


async def version(client: MeshEnvoy, path: str = "/") -> str:
    answer = await client.get(f"http://s.b{path}")
    return answer.version or str(answer.status)


async def test_a_route_of_a_service_holds_for_its_clients(scene: Scene) -> None:
    (client,) = await opened_mesh(scene, "c")
    assert await version(client) == "s"
    await scene.apply(
        route=route(
            f"{{matches: [{{path: {{value: /a}}}}], {TO_A}}}, "
            f"{{matches: [{{path: {{value: /b}}}}], {TO_B}}}, "
            f"{{matches: [{{path: {{value: /gone}}}}], backendRefs: [{{name: gone, port: 80}}]}}",
            parent=PARENT,
        )
    )
    found = {path: await version(client, path) for path in ("/a/x", "/ab", "/b", "/gone", "/c")}
    assert found == {"/a/x": "a", "/ab": "404", "/b": "b", "/gone": "500", "/c": "404"}
    await scene.apply(route=None)
    assert await version(client, "/a") == "s"


async def test_a_route_of_another_namespace_is_for_the_clients_there(scene: Scene) -> None:
    here, there = await opened_mesh(scene, "c", "d")
    parent = PARENT.replace("name: s", "name: s, namespace: b")
    backend = "{backendRefs: [{name: b, namespace: b, port: 80}]}"
    grant = """
        apiVersion: gateway.networking.k8s.io/v1
        kind: ReferenceGrant
        metadata: {name: g, namespace: b}
        spec:
          from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: d}]
          to: [{group: "", kind: Service}]
        """
    await scene.apply(
        grant=grant,
        producer=route(f"{{{TO_A}}}", parent=PARENT, name="producer"),
        consumer=route(backend, parent=parent, name="consumer", namespace="d"),
    )
    assert (await version(here), await version(there)) == ("a", "b")


async def test_conditions_and_warnings_are_shown(scene: Scene) -> None:
    await opened_site(scene, routes=route("{backendRefs: [{name: gone, port: 80}]}"))
    shown: Any = scene.plane.pages.configz()["gateway_api"]
    statuses = {(each["kind"], each["name"]): each for each in shown}
    (parent,) = statuses["HTTPRoute", "r"]["parents"]
    assert [(each["type"], each["status"], each["reason"]) for each in parent["conditions"]] == [
        ("Accepted", True, "Accepted"),
        ("ResolvedRefs", False, "BackendNotFound"),
    ]
    (listener,) = statuses["Gateway", "gw"]["listeners"]
    assert (listener["name"], listener["attachedRoutes"]) == ("http", 1)
    (warning,) = scene.plane.pages.status()["warnings"]
    assert warning["field"] == "spec.rules[0].backendRefs[0]"
    assert warning["message"] == "there is no Service b/gone (BackendNotFound)"


async def test_a_backend_of_type_external_name_is_the_service_that_it_names(scene: Scene) -> None:
    (client,) = await opened_mesh(scene, "c")
    await scene.apply(
        alias=alias("old", "b"),
        route=route("{backendRefs: [{name: old, port: 80}]}", parent=PARENT),
    )
    assert await version(client) == "b"
