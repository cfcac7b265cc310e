"""Services of one workload, ways by several proxies, shares of copies, and what is aborted."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest

from destination_rules import rule
from documents import entry
from gateway_documents import gateway, server, service, to, virtual_service
from scenarios import Scene
from virtual_services import VERSIONS

HOST = "s.b.svc.cluster.local"


async def test_services_of_one_workload_lead_to_their_own_ports(scene: Scene) -> None:
    """Whether they have the port that clients name, or the one of the workload, in common."""
    sidecar = await scene.sidecar("s", namespace="b", service_account="s")
    for number in (8080, 8081):
        await scene.echo(str(number), address=sidecar.app_address, port=number)
    client, router, port = await scene.sidecar("c"), await scene.router(), scene.port()
    ports = {"one": (80, 8080), "two": (80, 8080), "three": (80, 8081), "four": (81, 8080)}
    ports["five"] = (81, 8081)
    documents: dict[str, Any] = {
        name: entry(
            name,
            f"hosts: [{name}.b.svc.cluster.local], location: MESH_INTERNAL, resolution: STATIC, "
            f"ports: [{{number: {number}, name: http, protocol: HTTP, targetPort: {target}}}], "
            f"endpoints: [{{address: {sidecar.address}, serviceAccount: s}}]",
            namespace="b",
        )
        for name, (number, target) in ports.items()
    }
    routes: dict[str, Any] = {
        f"{name}_route": virtual_service(
            f"{name}.example",
            name=name,
            http=[{"route": to(f"{name}.b.svc.cluster.local", number)}],
        )
        for name, (number, _) in ports.items()
    }
    gateways = gateway(server("HTTP", port, "*.example"))

    await scene.apply(gw=gateways, **documents, **routes)

    wanted = {name: str(target) for name, (_, target) in ports.items()}
    by_sidecar = {
        name: (await client.get(f"http://{name}.b.svc.cluster.local:{number}/")).version
        for name, (number, _) in ports.items()
    }
    by_gateway = {
        name: (await router.get(f"http://{name}.example:{port}/")).version for name in ports
    }
    assert by_sidecar == wanted
    assert by_gateway == wanted


async def test_requests_leave_the_mesh_by_a_gateway_that_speaks_tls_for_them(
    scene: Scene,
) -> None:
    """The client speaks plain HTTP, mutual TLS goes to the gateway, and TLS from there."""
    roots = scene.tmp_path / "roots.pem"
    roots.write_bytes(scene.authority.root_pem)
    outside = await scene.echo("outside", port=8443, tls=scene.tls("out.example"))
    client, router, port = await scene.sidecar("c"), await scene.router(), scene.port()
    way_out = "egress.b.svc.cluster.local"
    await scene.apply(
        outside=entry(
            "outside",
            "hosts: [out.example], location: MESH_EXTERNAL, resolution: STATIC, "
            "ports: [{number: 80, name: http, protocol: HTTP}, "
            "{number: 443, name: http-tls, protocol: HTTP, targetPort: 8443}], "
            f"endpoints: [{{address: {outside.address}}}]",
            namespace="b",
        ),
        egress=entry(
            "egress",
            f"hosts: [{way_out}], location: MESH_INTERNAL, resolution: STATIC, "
            f"ports: [{{number: 443, name: https, protocol: HTTPS, targetPort: {port}}}], "
            f"endpoints: [{{address: {router.outbound_address}, serviceAccount: gw}}]",
            namespace="b",
        ),
        gw=gateway(server("HTTPS", port, "out.example", tls={"mode": "ISTIO_MUTUAL"})),
        to_egress=rule(
            "subsets:\n- name: out\n  trafficPolicy: {tls: {mode: ISTIO_MUTUAL, sni: out.example}}",
            name="egress",
            host=way_out,
        ),
        to_outside=rule(
            "trafficPolicy: {portLevelSettings: [{port: {number: 443}, "
            f"tls: {{mode: SIMPLE, sni: out.example, caCertificates: {roots}}}}}]}}",
            name="outside",
            host="out.example",
        ),
        route=virtual_service(
            "out.example",
            gateways=("mesh", "b/gw"),
            http=[
                {
                    "match": [{"gateways": ["mesh"], "port": 80}],
                    "route": [
                        {
                            "destination": {
                                "host": way_out,
                                "subset": "out",
                                "port": {"number": 443},
                            }
                        }
                    ],
                },
                {
                    "match": [{"gateways": ["b/gw"], "port": port}],
                    "route": to("out.example", 443),
                },
            ],
        ),
    )

    answer = await client.get("http://out.example/x")

    assert (answer.status, answer.version, answer.seen.path) == (200, "outside", "/x")
    assert set(outside.server_names) == {"out.example"}
    at_gateway = await router.logged(path="/x")
    assert at_gateway["downstream_peer_uri_san"] == "spiffe://cluster.local/ns/a/sa/c"
    assert at_gateway["upstream_cluster"] == "outbound|443||out.example"


@pytest.mark.parametrize(("share", "least", "most"), [(0, 0, 0), (50, 1, 59), (100, 60, 60)])
async def test_a_share_of_the_requests_is_copied(
    share: int, least: int, most: int, scene: Scene
) -> None:
    reviews = await scene.reviews()
    await scene.apply(
        rule=VERSIONS,
        vs=virtual_service(
            HOST,
            gateways=("mesh",),
            http=[
                {
                    "route": [{"destination": {"host": HOST, "subset": "v1"}}],
                    "mirror": {"host": HOST, "subset": "v2"},
                    "mirrorPercentage": {"value": share},
                }
            ],
        ),
    )

    answers = {(await reviews.client.get(f"http://{HOST}/")).version for _ in range(60)}

    assert answers == {"v1"}
    copies = await reviews.client.stat(f"cluster.outbound|80|v2|{HOST};.upstream_rq_total")
    assert least <= copies <= most


async def test_each_destination_of_a_route_has_its_own_authority(scene: Scene) -> None:
    reviews = await scene.reviews()
    shares = [
        {
            "destination": {"host": HOST, "subset": name},
            "weight": 50,
            "headers": {"request": {"set": {":authority": f"{name}.example"}}},
        }
        for name in ("v1", "v2")
    ]
    await scene.apply(
        rule=VERSIONS, vs=virtual_service(HOST, gateways=("mesh",), http=[{"route": shares}])
    )

    answers = [await reviews.client.get(f"http://{HOST}/") for _ in range(30)]

    seen = {(each.version, each.seen.host) for each in answers}
    assert seen == {("v1", "v1.example"), ("v2", "v2.example")}


@asynccontextmanager
async def grpc_server(address: str, port: int) -> AsyncIterator[list[str]]:
    """Serve every gRPC method at a place; yields the methods that were called."""
    called: list[str] = []

    async def answer(request: bytes, _context: Any) -> bytes:
        return request

    class Everything(grpc.GenericRpcHandler):  # type: ignore[type-arg]
        def service(self, handler_call_details: Any) -> Any:
            called.append(handler_call_details.method)
            return grpc.unary_unary_rpc_method_handler(answer)

    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Everything(),))
    server.add_insecure_port(f"{address}:{port}")
    await server.start()
    try:
        yield called
    finally:
        await server.stop(0)


async def test_a_grpc_call_is_aborted_with_its_status(scene: Scene) -> None:
    sidecar = await scene.sidecar("s", namespace="b", service_account="s")
    client = await scene.sidecar("c")
    abort = {"grpcStatus": "RESOURCE_EXHAUSTED", "percentage": {"value": 100}}
    await scene.apply(
        service=service(sidecar.address, protocol="GRPC", serviceAccount="s"),
        vs=virtual_service(
            HOST,
            gateways=("mesh",),
            http=[
                {
                    "match": [{"headers": {"broken": {"exact": "yes"}}}],
                    "fault": {"abort": abort},
                    "route": to(),
                },
                {"route": to()},
            ],
        ),
    )

    async with (
        grpc_server(sidecar.app_address, 8080) as called,
        grpc.aio.insecure_channel(
            f"{client.outbound_address}:80", options=[("grpc.default_authority", HOST)]
        ) as channel,
    ):
        ask = channel.unary_unary("/shop.Cart/Add", bytes, bytes)
        assert await ask(b"x") == b"x"
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await ask(b"x", metadata=(("broken", "yes"),))

    assert failed.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert called == ["/shop.Cart/Add"]
