"""Whatever a mesh is changed to, connected Envoys take it, and have in the end what is expected."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from drawn_meshes import Mesh, meshes, yaml_of
from planes import eventually
from scenarios import MeshEnvoy, Scene

_NEEDS_MORE = ("credentialName", '"/etc/', "caCertificates", '"unix:///', '"url":')
"""A file, a Secret, or an agent that fetches a module. And a Unix socket of one path would be bound
by each Envoy of this machine, and only one can."""


def served_here(mesh: Mesh, scene: Scene, addresses: dict[str, str]) -> tuple[str, str]:
    """Return a mesh as documents that Envoys on this machine can serve, and the mesh config.

    Virtual addresses, which it could not bind, and settings that wait for something else are left
    out; the workloads that have sidecars here are at their addresses; ports are this scene's own.
    """
    found = []
    mesh_config: dict[str, Any] = {}
    for document in mesh.documents:
        text = json.dumps(document)
        if any(word in text for word in _NEEDS_MORE):
            continue
        for drawn, own in addresses.items():
            text = text.replace(f'"{drawn}"', f'"{own}"')
        here = json.loads(text)
        spec = here["spec"]
        if here["kind"] == "MeshConfig":
            mesh_config = spec
            continue
        if here["kind"] == "ServiceEntry":
            spec.pop("addresses", None)
        for server in spec.get("servers", ()):
            server["port"]["number"] = scene.port_for(server["port"]["number"])
            server.pop("bind", None)
        found.append(here)
    if "proxyHttpPort" in mesh_config:
        mesh_config["proxyHttpPort"] = scene.port_for(mesh_config["proxyHttpPort"])
    own_config = {
        "apiVersion": "mesh.istio.io/v1alpha1",
        "kind": "MeshConfig",
        "spec": {
            **mesh_config,
            "proxyListenPort": scene.port_for(15001),
            "proxyInboundListenPort": scene.port_for(15006),
            "defaultConfig": {"drainDuration": "1s"},
        },
    }
    return yaml_of(found), yaml_of([own_config])


@pytest.mark.slow
@settings(
    max_examples=25,
    phases=[Phase.explicit, Phase.generate],  # an example goes on where the one before ended
    suppress_health_check=list(HealthCheck),
    deadline=None,
)
@given(mesh=meshes(), waits=st.booleans())
async def test_random_edits_are_never_refused_and_end_as_expected(
    scene: Scene, mesh: Mesh, *, waits: bool
) -> None:
    if not scene.envoys:
        await scene.apply(mesh_config=served_here(Mesh((), ()), scene, {})[1])
        await _start(scene)
    addresses = {
        "10.4.0.1": scene.envoys["none"].address,
        "10.4.0.2": scene.envoys["redirected"].address,
    }
    documents, mesh_config = served_here(mesh, scene, addresses)

    await scene.apply(wait=waits, mesh=documents, mesh_config=mesh_config)

    assert scene.refused() == []

    if waits:
        for envoy in scene.envoys.values():

            async def exact(envoy: MeshEnvoy = envoy) -> list[str]:
                return await scene.differences(envoy, extras=True)

            await eventually(exact, wanted=[], what=f"{envoy.name} with nothing else besides")
        assert scene.refused() == []


async def _start(scene: Scene) -> None:
    """Start a sidecar of either interception mode, and a gateway."""
    await scene.sidecar("none", namespace="a", service_account="s", labels={"app": "s"})
    await scene.sidecar(
        "redirected",
        namespace="b",
        service_account="s",
        labels={"app": "t"},
        metadata={"INTERCEPTION_MODE": "REDIRECT"},
    )
    await scene.router("gateway", namespace="b", service_account="s")
