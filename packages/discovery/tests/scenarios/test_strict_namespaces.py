"""Real Envoys and a tenant that speaks of others' hosts: by Istio's rules, and in a strict mesh."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from documents import entry
from gateway_documents import S, gateway, server, service, to, virtual_service
from scenarios import Echo, MeshEnvoy, Scene, opened_scene

OWN, BANK = "own.evil.svc.cluster.local", "api.bank.example"
GIVEN = """\
apiVersion: v1
kind: Namespace
metadata: {{name: {namespace}, annotations: {{mesh-discovery/hosts: "{host}"}}}}
"""


@pytest.fixture(params=["by Istio's rules", "strict"])
async def either(
    request: pytest.FixtureRequest, tmp_path: Path, socket_dir: Path, envoy_binary: Path
) -> AsyncIterator[tuple[Scene, bool]]:
    """Open a scene of either kind; tell whether it is strict."""
    strict = request.param == "strict"
    opened = opened_scene(
        tmp_path=tmp_path,
        socket_dir=socket_dir,
        envoy_binary=envoy_binary,
        strict_namespaces=strict,
    )
    async with opened as scene:
        yield scene, strict


async def teams(scene: Scene) -> tuple[MeshEnvoy, Echo]:
    """Start S of namespace b and a service of evil's; return C of a, and evil's server."""
    right, wrong = await scene.echo("right"), await scene.echo("wrong")
    await scene.apply(s=service(right.address), own=service(wrong.address, host=OWN))
    return await scene.sidecar("c", namespace="a", service_account="c"), wrong


def outside(namespace: str, echo: Echo) -> str:
    """Return a ServiceEntry of a host outside of the mesh that leads to a server."""
    return entry(
        "bank",
        f"hosts: [{BANK}], resolution: STATIC, endpoints: [{{address: {echo.address}}}], "
        f"ports: [{{number: 80, name: http, protocol: HTTP, targetPort: {echo.port}}}]",
        namespace=namespace,
    )


async def answering(client: MeshEnvoy, url: str) -> str:
    """Return the version that answers, or the status of what is no answer of a server's."""
    answer = await client.get(url)
    return answer.version or str(answer.status)


async def test_a_virtual_service_of_anothers_host_holds_for_its_own_namespace(
    either: tuple[Scene, bool],
) -> None:
    scene, strict = either
    client, _ = await teams(scene)
    own = await scene.sidecar("e", namespace="evil", service_account="e")
    stolen = virtual_service(
        S, name="aaa", namespace="evil", gateways=("mesh",), http=[{"route": to(OWN)}]
    )
    assert await answering(client, "http://s.b/") == "right"

    await scene.apply(stolen=stolen)

    assert await answering(client, "http://s.b/") == ("right" if strict else "wrong")
    assert await answering(own, "http://s.b/") == "wrong"


async def test_a_service_entry_of_anothers_host_is_for_its_own_namespace(
    either: tuple[Scene, bool],
) -> None:
    scene, strict = either
    client, wrong = await teams(scene)
    right = await scene.echo("bank")

    await scene.apply(stolen=outside("evil", wrong))
    assert (await answering(client, f"http://{BANK}/") == "wrong") is not strict

    # Given to a namespace, the host is what that one says.
    await scene.apply(
        given=GIVEN.format(namespace="b", host="*.bank.example"),
        bank=outside("b", right),
    )
    if strict:
        assert await answering(client, f"http://{BANK}/") == "bank"


async def test_a_host_that_a_gateway_gives_to_any_is_for_whom_it_is_given_to(
    either: tuple[Scene, bool],
) -> None:
    scene, strict = either
    await teams(scene)
    router, port = await scene.router(namespace="b"), scene.port()
    await scene.apply(
        gw=gateway(server("HTTP", port, "*.open.example")),
        stolen=virtual_service(
            "x.open.example", name="aaa", namespace="evil", http=[{"route": to(OWN)}]
        ),
    )
    url = f"http://x.open.example:{port}/"
    assert await answering(router, url) == ("404" if strict else "wrong")

    await scene.apply(given=GIVEN.format(namespace="evil", host="x.open.example"))
    assert await answering(router, url) == "wrong"
