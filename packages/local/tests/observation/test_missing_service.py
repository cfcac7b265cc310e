"""A name or a port that the mesh file does not have is reported with what was probably meant."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from mesh_local import Block, MeshFile, MeshPlan, plan_mesh
from mesh_local.observation._checks import run_check
from mesh_local.observation._missing_service import missing_service
from mesh_local.observation._routes import route

MESH = """\
workloads:
  - {name: shop, namespace: shop, ports: [{port: 8080}]}
  - {name: prices, namespace: back, ports: [{port: 7000}]}
checks:
  - name: the shop reaches the prices
    from: shop
    request: GET http://prices:7000/
    expect: {status: 200}
"""


@pytest.fixture
def two(parse: Callable[[str], MeshFile]) -> MeshPlan:
    return plan_mesh(parse(MESH), Block(number=64))


@pytest.mark.parametrize(
    ("host", "port", "sentence"),
    [
        (
            "prices",
            80,
            'the mesh file has no service "prices" in namespace shop; did you mean prices.back?',
        ),
        (
            "price.back",
            7000,
            'the mesh file has no service "price" in namespace back; did you mean prices.back?',
        ),
        ("other", 80, 'the mesh file has no service "other" in namespace shop; there are shop'),
        ("prices.back", 80, "prices.back has the port 7000"),
        ("prices.back.svc.cluster.local", 7000, None),
        ("shop", 8080, None),
        ("far.example.com", 443, None),
        ("127.0.0.1", 1, None),
    ],
)
def test_what_the_mesh_file_does_not_have(
    two: MeshPlan, host: str, port: int, sentence: str | None
) -> None:
    assert missing_service(two, "shop", host, port) == sentence


def test_the_way_of_a_request_tells_of_a_name_that_leads_nowhere(two: MeshPlan) -> None:
    sender = two.instances_of("shop")[0]

    assert "did you mean prices.back?" in (route(two, sender, "http://prices/").missing or "")
    assert route(two, sender, "http://prices.back/").missing is None


async def test_a_check_whose_request_leads_nowhere_says_what_was_meant(two: MeshPlan) -> None:
    async def refuse(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 503 -\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    (sender,) = two.instances_of("shop")
    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        at = server.sockets[0].getsockname()[1]
        mesh = msgspec.structs.replace(two.file.mesh, http_proxy_port=at)
        addresses = replace(sender.addresses, outbound="127.0.0.1")
        plan = replace(
            two,
            file=replace(two.file, mesh=mesh),
            instances=(replace(sender, addresses=addresses), *two.instances_of("prices")),
        )
        found = await run_check(two.file.checks[0], plan)

    assert found.failures == (
        "expected status 200, got 503",
        'the mesh file has no service "prices" in namespace shop; did you mean prices.back?',
    )
