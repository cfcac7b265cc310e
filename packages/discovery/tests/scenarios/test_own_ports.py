"""Where nothing is intercepted, no service leads to the pages of Envoy's or the agent's own."""

import socket

import aiohttp
import pytest

from documents import entry
from scenarios import Scene


@pytest.mark.parametrize("name", ["proxyAdminPort", "statusPort"])
async def test_a_service_does_not_open_the_proxy_s_own_port(scene: Scene, name: str) -> None:
    own, app = await scene.echo("own", address="127.0.0.1", port=scene.port()), scene.port()
    await scene.echo("app", address="127.0.0.1", port=app)
    address = scene.network.address()
    services = {
        f"service_{service}": entry(
            service,
            f"hosts: [{service}.b.svc.cluster.local], location: MESH_INTERNAL, "
            "resolution: STATIC, "
            f"ports: [{{number: 80, name: http, protocol: HTTP, targetPort: {port}}}], "
            f"endpoints: [{{address: {address}}}]",
            namespace="b",
        )
        for service, port in (("own", own.port), ("app", app))
    }
    await scene.apply(mistaken=False, wait=True, **services)

    await scene.sidecar(
        "s",
        namespace="b",
        service_account="s",
        address=address,
        metadata={"APP_ADDRESS": "127.0.0.1", "PROXY_CONFIG": {name: own.port}},
    )

    async with aiohttp.ClientSession() as session, session.get(f"http://{address}:{app}/") as reply:
        assert reply.status == 200
    with socket.socket() as client, pytest.raises(ConnectionRefusedError):
        client.connect((address, own.port))
