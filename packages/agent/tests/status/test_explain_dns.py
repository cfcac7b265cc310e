"""`/debug/dns`: the question is read from the query string, and explained as JSON."""

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from mesh_agent.status._explain_dns import explain_dns
from mesh_dnsproxy import DnsConfig, DnsServer, ListenAddress, NameEntry, NameTable, serving
from mesh_status_server import Request


def request(query: str) -> Request:
    return Request(method="GET", path="/debug/dns", peer="127.0.0.1", query=query)


@pytest_asyncio.fixture
async def server() -> AsyncIterator[DnsServer]:
    config = DnsConfig(listen=(ListenAddress("127.0.0.1", 0),), resolv_conf=None)
    async with serving(config) as running:
        running.set_table(NameTable({"web.example": NameEntry(addresses=("10.0.0.7",))}))
        await running.wait_table_in_use()
        yield running


async def test_an_explanation(server: DnsServer) -> None:
    response = await explain_dns(server, request("name=WEB.example&type=a"))
    found = json.loads(response.body)
    assert response.status == 200
    assert (found["rule"], found["host"], found["code"]) == ("host", "web.example", "NOERROR")
    assert found["answers"] == [
        {"name": "web.example", "type": "A", "ttl_s": 30, "data": "10.0.0.7"}
    ]


async def test_a_name_that_no_one_has(server: DnsServer) -> None:
    found = json.loads((await explain_dns(server, request("name=gone.example"))).body)
    assert (found["rule"], found["origin"], found["upstreams"]) == ("not_in_table", "none", [])


@pytest.mark.parametrize(
    "query",
    [
        "",
        "name=",
        "name=a&name=b",
        "name=a..b",
        f"name={'a' * 300}",
        "name=a&type=QQ",
        "name=a&type=-1",
        "&".join(f"x{number}=1" for number in range(100)),
        "name=%00%ff",
    ],
)
async def test_a_bad_question_is_one_sentence(server: DnsServer, query: str) -> None:
    response = await explain_dns(server, request(query))
    assert response.status == 400
    assert response.body.count(b"\n") == 1


async def test_an_agent_without_dns_says_so() -> None:
    response = await explain_dns(None, request("name=web"))
    assert response.status == 404
    assert b"ISTIO_META_DNS_CAPTURE" in response.body
