"""A service whose endpoints are found in another way than before."""

from documents import entry
from scenarios import Scene


def service(resolution: str, *, address: str, port: int) -> str:
    return entry(
        "s",
        f"hosts: [s.b.svc.cluster.local], location: MESH_INTERNAL, resolution: {resolution}, "
        f"ports: [{{number: 80, name: http, protocol: HTTP, targetPort: {port}}}], "
        f"endpoints: [{{address: {address}}}]",
        namespace="b",
    )


async def test_a_service_that_becomes_one_of_dns_is_looked_up_and_nothing_is_refused(
    scene: Scene,
) -> None:
    port = scene.port()
    listed = await scene.echo("listed", port=port)
    await scene.echo("looked up", address="127.0.0.1", port=port)
    await scene.apply(service=service("STATIC", address=listed.address, port=port))
    client = await scene.sidecar()
    assert (await client.get("http://s.b/")).version == "listed"

    await scene.apply(service=service("DNS", address="localhost", port=port))
    assert (await client.get("http://s.b/")).version == "looked up"

    await scene.apply(service=service("STATIC", address=listed.address, port=port))
    assert (await client.get("http://s.b/")).version == "listed"
    assert scene.refused() == []
