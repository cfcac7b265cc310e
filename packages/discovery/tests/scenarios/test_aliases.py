"""Routes to services of type ExternalName: they stand for the services that they name."""

import pytest

from documents import document, entry
from gateway_documents import gateway, server, service, to, virtual_service
from planes import eventually
from scenarios import Scene

ALIAS = """\
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: b}}
spec: {{type: ExternalName, externalName: {target}{ports}}}
"""
OTHER = "t.b.svc.cluster.local"
OLD, OLDER = "old.b.svc.cluster.local", "older.b.svc.cluster.local"


def alias(name: str, target: str, ports: str = ", ports: [{name: http, port: 80}]") -> str:
    return ALIAS.format(name=name, target=target, ports=ports)


ALIASES = alias("old", "s.b.svc.cluster.local") + "---\n" + alias("older", OLD)


@pytest.mark.parametrize("host", [OLD, OLDER])
async def test_a_sidecar_s_route_to_an_alias_leads_to_its_target(host: str, scene: Scene) -> None:
    reviews = await scene.reviews()
    await scene.apply(
        aliases=ALIASES,
        route=virtual_service(
            "shop.example",
            gateways=("mesh",),
            http=[
                {
                    "match": [{"uri": {"prefix": "/v2"}}],
                    "route": [{"destination": {"host": host, "subset": "v2"}}],
                },
                {"route": [{"destination": {"host": host}}]},
            ],
        ),
        rule=document(
            "DestinationRule",
            "s",
            "{host: s.b.svc.cluster.local, subsets: [{name: v2, labels: {version: v2}}]}",
            namespace="b",
        ),
    )

    answer = await reviews.client.get("http://shop.example/")
    assert answer.status == 200
    second = {(await reviews.client.get("http://shop.example/v2")).version for _ in range(5)}
    assert second == {"v2"}

    # A Sidecar imports what its routes lead to.
    other = await scene.echo("other")
    await scene.apply(
        other=service(other.address, host=OTHER),
        sidecar=document(
            "Sidecar", "s", f"{{egress: [{{hosts: ['b/shop.example', 'b/{OTHER}']}}]}}"
        ),
    )
    assert (await reviews.client.get("http://shop.example/")).version in {"v1", "v2"}

    await scene.apply(aliases=ALIASES.replace("s.b.svc.cluster.local", OTHER))
    assert (await reviews.client.get("http://shop.example/")).version == "other"


async def test_a_gateway_s_route_to_an_alias_leads_to_its_target(scene: Scene) -> None:
    """By the alias's port, if it has one and the route names none; without ports the target's."""
    echo = await scene.echo("v1")
    router, port = await scene.router(), scene.port()
    await scene.apply(
        service=service(echo.address),
        aliases=ALIASES,
        bare=alias("bare", "s.b.svc.cluster.local", ports=""),
        gw=gateway(server("HTTP", port, "*.example")),
        named=virtual_service("a.example", name="named", http=[{"route": to(OLD)}]),
        short=virtual_service(
            "b.example", name="short", http=[{"route": [{"destination": {"host": "older"}}]}]
        ),
        bare_vs=virtual_service(
            "c.example", name="bare", http=[{"route": [{"destination": {"host": "bare"}}]}]
        ),
    )

    for host in ("a.example", "b.example", "c.example"):
        answer = await router.get(f"http://{host}:{port}/")
        assert (host, answer.status, answer.version) == (host, 200, "v1")


async def test_routes_of_connections_to_an_alias_lead_to_its_target(scene: Scene) -> None:
    echo = await scene.tcp_echo("one")
    client, router, port = await scene.sidecar("c"), await scene.router(), scene.port()
    await scene.apply(
        service=service(echo.address, port=echo.port, protocol="TCP"),
        other=entry(
            "t",
            f"hosts: [{OTHER}], location: MESH_INTERNAL, resolution: STATIC, "
            "ports: [{number: 7000, name: tcp, protocol: TCP}], endpoints: [{address: 127.0.0.1}]",
            namespace="b",
        ),
        aliases=ALIASES,
        gw=gateway(server("TCP", port, "*")),
        at_gateway=virtual_service("*", name="gw", tcp=[{"route": to(OLD)}]),
        at_sidecar=virtual_service(
            OTHER, name="mesh", gateways=("mesh",), tcp=[{"route": to(OLDER)}]
        ),
    )

    assert await router.send(port, b"x\n") == b"one x\n"
    assert await client.send(7000, b"x\n") == b"one x\n"


async def test_a_copy_of_requests_goes_to_the_target_of_an_alias(scene: Scene) -> None:
    reviews, copies = await scene.reviews(), await scene.echo("copies")
    await scene.apply(
        copies=service(copies.address, host="copies.b.svc.cluster.local"),
        alias=alias("old", "copies.b.svc.cluster.local"),
        route=virtual_service(
            "s.b.svc.cluster.local",
            gateways=("mesh",),
            http=[{"route": to(), "mirror": {"host": OLD}}],
        ),
    )

    assert (await reviews.client.get("http://s.b/")).status == 200

    async def copied() -> bool:
        return copies.count == 1

    await eventually(copied, what="the copy")
