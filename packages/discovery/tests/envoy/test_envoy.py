"""What the generators make, taken by real Envoys, and traffic through them."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from documents import Documents
from envoy_config import PushContext
from mesh_ca import load_or_create_authority
from mesh_ca.testing import throwaway_authority
from mesh_model import MeshModel
from planes import Envoy, Lab
from proxies import proxy

CASES = Path(__file__).parents[3] / "envoy-config" / "tests" / "generate" / "cases"
WEB, CLIENT = "127.92.1", "127.92.2"
SPIFFE = "spiffe://cluster.local/ns/default/sa/{}"
Start = Callable[..., Awaitable[Any]]


async def rejected(envoy: Envoy) -> int:
    return sum(
        [
            await envoy.stat("cluster_manager.cds.update_rejected"),
            await envoy.stat("listener_manager.lds.update_rejected"),
            await envoy.stat("http.outbound_.*.update_rejected"),
        ]
    )


async def test_plaintext_traffic_flows_from_app_to_app_and_every_type_is_acked(
    lab: Lab,
    yaml: Documents,
    free_port: Callable[..., int],
    eventually: Start,
) -> None:
    port = await lab.app("web", f"{WEB}.2")
    lab.write(web=yaml.service("web", f"{WEB}.1", 80, port))
    db = free_port(f"{WEB}.1")
    lab.write(tcp=yaml.service("db", f"{WEB}.1", 5432, db, "tcp"))
    lab.write(policy=yaml.peer_authentication("DISABLE"))
    plane = await lab.plane(lab.config_dir)
    web = await lab.envoy("web", WEB, plane.grpc)
    client = await lab.envoy("client", CLIENT, plane.grpc)

    async def call() -> Any:
        async with lab.session.get(f"http://{CLIENT}.3/", headers={"Host": "web"}) as response:
            return await response.json() if response.status == 200 else None

    answer = await eventually(call, what="a request from app to app")

    assert answer["app"] == "web"
    assert "x-forwarded-client-cert" not in {name.lower() for name in answer["headers"]}

    async def listening() -> list[bool]:
        inbound = {f"{WEB}.1_{port}", f"{WEB}.1_{db}"}
        return [
            await web.listeners() == {*inbound, f"{WEB}.3_80", f"{WEB}.3_5432"},
            await client.listeners() == {f"{CLIENT}.3_80", f"{CLIENT}.3_5432"},
        ]

    # An answer comes as soon as its own two listeners are there.
    await eventually(listening, wanted=[True, True], what="every listener of both")
    assert await rejected(web) == await rejected(client) == 0

    async def acknowledged() -> list[dict[str, str]]:
        return [
            {name: each["status"] for name, each in connection["types"].items()}
            for connection in await plane.get("/debug/syncz")
        ]

    synced = dict.fromkeys(("cluster", "endpoint", "listener", "route"), "SYNCED")
    await eventually(acknowledged, wanted=[synced, synced], what="every type acknowledged")


async def test_statistics_say_which_cluster_they_are_of(
    lab: Lab, yaml: Documents, eventually: Start
) -> None:
    port = await lab.app("web", f"{WEB}.2")
    lab.write(web=yaml.service("web", f"{WEB}.1", 80, port))
    lab.write(policy=yaml.peer_authentication("DISABLE"))
    plane = await lab.plane(lab.config_dir)
    web = await lab.envoy("web", WEB, plane.grpc)
    client = await lab.envoy("client", CLIENT, plane.grpc)

    async def call() -> bool:
        async with lab.session.get(f"http://{CLIENT}.3/", headers={"Host": "web"}) as response:
            return bool(response.status == 200)

    await eventually(call, what="a request from app to app")

    for envoy, cluster in (
        (client, "outbound|80||web.default.svc.cluster.local"),
        (web, f"inbound|{port}||"),
        (web, "BlackHoleCluster"),
    ):
        lines = (await envoy.get("/stats/prometheus")).splitlines()
        counts = [line for line in lines if line.startswith("envoy_cluster_upstream_rq_total{")]
        assert any(f'cluster_name="{cluster}"' in line for line in counts), counts
    for connection in await plane.get("/debug/syncz"):
        assert connection["types"]["cluster"]["status"] == "SYNCED"


@pytest.mark.parametrize("case", sorted(path.stem for path in CASES.glob("*.yaml")))
async def test_envoy_takes_everything_of_the_golden_cases(
    case: str, lab: Lab, eventually: Start, model_of: Callable[..., MeshModel]
) -> None:
    documents = {name: (CASES / f"{name}.yaml").read_text() for name in {"base", case}}
    lab.write(**documents)
    context = PushContext(model_of(*documents.values()))
    sidecar = proxy(LABELS={"app": "web"})
    listeners = {each.name for each in context.listeners(sidecar).resources}
    plane = await lab.plane(lab.config_dir)
    mesh = (await plane.get("/debug/configz"))["mesh"]
    authority = load_or_create_authority(
        plane.ca_dir, trust_domain=mesh["trustDomain"] or "cluster.local"
    )
    secrets = await lab.secrets(authority, f"spiffe://{authority.trust_domain}/ns/default/sa/web")

    web = await lab.envoy("web", "127.93.1", plane.grpc, secrets, LABELS={"app": "web"})

    async def listens() -> bool:
        return bool(
            await web.listeners() == listeners
            and await web.stat("listener_manager.total_listeners_warming") == 0
        )

    await eventually(listens, what="every listener")
    assert await rejected(web) == 0
    (connection,) = await plane.get("/debug/syncz")
    assert all(each["nacks"] == 0 for each in connection["types"].values())
    assert connection["types"]["cluster"]["resources"] == len(context.clusters(sidecar).resources)


async def test_an_edit_reaches_envoy_without_a_failed_request(
    lab: Lab,
    yaml: Documents,
    eventually: Start,
) -> None:
    old, new = await lab.app("old", "127.92.3.1"), await lab.app("new", "127.92.3.2")
    file = lab.config_dir / "web.yaml"
    file.write_text(yaml.service("web", "127.92.3.1", 80, old))
    lab.write(policy=yaml.peer_authentication("DISABLE"))
    plane = await lab.plane(lab.config_dir)
    await lab.envoy("client", CLIENT, plane.grpc)
    statuses: set[int] = set()

    async def app(*, wanted: str) -> bool:
        async with lab.session.get(f"http://{CLIENT}.3/", headers={"Host": "web"}) as response:
            statuses.add(response.status)
            return bool(response.status == 200 and (await response.json())["app"] == wanted)

    await eventually(lambda: app(wanted="old"), what="a request to the old endpoint")
    statuses.clear()
    changed = lab.config_dir / "web.tmp"
    changed.write_text(yaml.service("web", "127.92.3.2", 80, new))
    changed.rename(file)
    await eventually(lambda: app(wanted="new"), what="a request to the new endpoint")

    assert statuses == {200}


async def test_mutual_tls_names_the_caller_and_refuses_everyone_else(
    lab: Lab,
    yaml: Documents,
    client_context: Callable[..., ssl.SSLContext],
    eventually: Start,
) -> None:
    port = await lab.app("web", f"{WEB}.2")
    lab.write(web=yaml.service("web", f"{WEB}.1", 80, port))
    lab.write(policy=yaml.peer_authentication("STRICT"))
    plane = await lab.plane(lab.config_dir)
    authority = load_or_create_authority(plane.ca_dir, trust_domain="cluster.local")
    web = await lab.envoy(
        "web", WEB, plane.grpc, await lab.secrets(authority, SPIFFE.format("web"))
    )
    await lab.envoy(
        "client", CLIENT, plane.grpc, await lab.secrets(authority, SPIFFE.format("client"))
    )

    async def call() -> Any:
        headers = {"Host": "web", "x-forwarded-client-cert": "URI=spiffe://forged"}
        async with lab.session.get(f"http://{CLIENT}.3/", headers=headers) as response:
            return await response.json() if response.status == 200 else None

    answer = await eventually(call, what="a request over mutual TLS")

    headers = {name.lower(): value for name, value in answer["headers"].items()}
    assert f"URI={SPIFFE.format('client')}" in headers["x-forwarded-client-cert"]
    assert "forged" not in headers["x-forwarded-client-cert"]
    inbound = f"https://{WEB}.1:{port}/"
    mesh_peer = client_context(authority, SPIFFE.format("other"))
    async with lab.session.get(inbound, ssl=mesh_peer) as response:
        assert response.status == 200
    with pytest.raises(aiohttp.ClientError):
        await lab.session.get(inbound.replace("https", "http"))
    foreign = client_context(throwaway_authority(), SPIFFE.format("client"))
    with pytest.raises(aiohttp.ClientError):
        await lab.session.get(inbound, ssl=foreign)
    assert await web.stat("listener.*.ssl.fail_verify_error") >= 1


async def test_a_server_with_another_service_account_is_not_talked_to(
    lab: Lab,
    yaml: Documents,
    eventually: Start,
) -> None:
    port = await lab.app("web", f"{WEB}.2")
    lab.write(web=yaml.service("web", f"{WEB}.1", 80, port))
    plane = await lab.plane(lab.config_dir)
    authority = load_or_create_authority(plane.ca_dir, trust_domain="cluster.local")
    await lab.envoy("web", WEB, plane.grpc, await lab.secrets(authority, SPIFFE.format("impostor")))
    client = await lab.envoy(
        "client", CLIENT, plane.grpc, await lab.secrets(authority, SPIFFE.format("client"))
    )

    async def refused_for_its_name() -> bool:
        async with lab.session.get(f"http://{CLIENT}.3/", headers={"Host": "web"}) as response:
            assert response.status != 200
        return bool(await client.stat("cluster.outbound.80..web.*ssl.fail_verify_san") > 0)

    await eventually(refused_for_its_name, what="a refusal for the wrong name")


async def test_a_permissive_port_takes_plaintext_and_mutual_tls(
    lab: Lab,
    yaml: Documents,
    client_context: Callable[..., ssl.SSLContext],
    eventually: Start,
) -> None:
    port = await lab.app("web", f"{WEB}.2")
    lab.write(web=yaml.service("web", f"{WEB}.1", 80, port))
    plane = await lab.plane(lab.config_dir)
    authority = load_or_create_authority(plane.ca_dir, trust_domain="cluster.local")
    await lab.envoy("web", WEB, plane.grpc, await lab.secrets(authority, SPIFFE.format("web")))
    headers = {"x-forwarded-client-cert": "URI=spiffe://forged"}

    async def plaintext() -> Any:
        async with lab.session.get(f"http://{WEB}.1:{port}/", headers=headers) as response:
            return await response.json()

    answer = await eventually(plaintext, what="a plaintext request")
    assert "x-forwarded-client-cert" not in {name.lower() for name in answer["headers"]}
    mesh_peer = client_context(authority, SPIFFE.format("other"))
    async with lab.session.get(f"https://{WEB}.1:{port}/", ssl=mesh_peer) as response:
        got = {name.lower(): value for name, value in (await response.json())["headers"].items()}
    assert SPIFFE.format("other") in got["x-forwarded-client-cert"]


@pytest.mark.parametrize(("mode", "status"), [("ALLOW_ANY", 200), ("REGISTRY_ONLY", 502)])
async def test_unknown_hosts_are_let_through_or_blocked_as_the_mesh_says(
    mode: str,
    status: int,
    lab: Lab,
    free_port: Callable[..., int],
    eventually: Start,
) -> None:
    port = await lab.app("outside", "127.92.4.1")
    proxy_port = free_port(f"{CLIENT}.3")
    lab.write(
        mesh="apiVersion: mesh.istio.io/v1alpha1\nkind: MeshConfig\nspec:\n"
        f"  proxyHttpPort: {proxy_port}\n  outboundTrafficPolicy: {{mode: {mode}}}\n"
    )
    plane = await lab.plane(lab.config_dir)
    client = await lab.envoy("client", CLIENT, plane.grpc)
    proxy = f"http://{CLIENT}.3:{proxy_port}"

    async def through_proxy(url: str) -> int:
        async with lab.session.get(url, proxy=proxy) as response:
            return int(response.status)

    async def as_wanted() -> bool:
        return await through_proxy(f"http://127.92.4.1:{port}/") == status

    await eventually(as_wanted, what=f"status {status}")
    assert await client.listeners() == {f"{CLIENT}.3_{proxy_port}"}
    if mode == "ALLOW_ANY":
        assert await through_proxy(proxy + "/") == 508, "a request to the proxy itself goes round"


async def test_tcp_services_are_reached_on_their_virtual_address(
    lab: Lab,
    yaml: Documents,
    free_port: Callable[..., int],
    eventually: Start,
) -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        writer.close()
        await writer.wait_closed()

    target, port = free_port(f"{WEB}.2"), free_port("127.92.5.5")
    server = await asyncio.start_server(shout, f"{WEB}.2", target)
    text = yaml.service("db", f"{WEB}.1", port, target, "tcp")
    lab.write(db=text.replace("  ports:", "  addresses: [127.92.5.5]\n  ports:"))
    lab.write(policy=yaml.peer_authentication("DISABLE"))
    plane = await lab.plane(lab.config_dir)
    await lab.envoy("web", WEB, plane.grpc, OUTBOUND_BIND_ADDRESS=f"{WEB}.9")

    async def call() -> bool:
        reader, writer = await asyncio.open_connection("127.92.5.5", port)
        try:
            writer.write(b"hello\n")
            return await reader.readline() == b"HELLO\n"
        finally:
            writer.close()
            await writer.wait_closed()

    async with server:
        await eventually(call, what="an answer over TCP")
