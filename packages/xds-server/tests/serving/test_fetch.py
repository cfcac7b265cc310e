"""Asking once: unary gRPC and REST-JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio
import pytest
from envoy.service.discovery.v3 import discovery_pb2

from xds_server import Peer, PlainListener, XdsServer, answer_rest, serving
from xds_server import type_urls as types
from xds_server.testing import admit_all
from xds_state import Make, State

PEER = Peer(address="test")


@pytest.fixture
def server(state: State) -> XdsServer[None]:
    server: XdsServer[None] = XdsServer(
        {types.CLUSTER: state, types.ENDPOINT: state}, admit=admit_all
    )
    server.set_ready()
    return server


async def test_a_fetch_is_answered_once(server: XdsServer[None], state: State, make: Make) -> None:
    state.set(make.endpoints("a"), make.endpoints("b"))
    request: Any = discovery_pb2.DiscoveryRequest(resource_names=["a"])
    request.node.id = "n"
    path = "/envoy.service.endpoint.v3.EndpointDiscoveryService/FetchEndpoints"
    async with serving(server, [PlainListener()]) as bound:
        async with grpc.aio.insecure_channel(bound.addresses[0]) as channel:
            call = channel.unary_unary(path, None, discovery_pb2.DiscoveryResponse.FromString)
            response: Any = await call(request.SerializeToString())
            assert [resource.value for resource in response.resources] == [
                state.resources[types.ENDPOINT]["a"].body
            ]
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call(b"")
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_rest_says_when_there_is_nothing_new(
    server: XdsServer[None], state: State, make: Make
) -> None:
    state.set(make.cluster("a"))
    request: dict[str, Any] = {"node": {"id": "n"}}
    answer = await answer_rest(server, "/v3/discovery:clusters", dumped(request), PEER)
    assert answer.status == 200
    response = json.loads(answer.body)
    assert [resource["name"] for resource in response["resources"]] == ["a"]
    request["version_info"] = response["versionInfo"]
    answer = await answer_rest(server, "/v3/discovery:clusters", dumped(request), PEER)
    assert (answer.status, answer.body) == (304, b"")
    state.set(make.cluster("a", change=1))
    answer = await answer_rest(server, "/v3/discovery:clusters", dumped(request), PEER)
    assert answer.status == 200


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v3/discovery:nonsense", b"{}", 404),
        ("/v3/discovery:clusters", b"", 400),
        ("/v3/discovery:clusters", b"\xff\xfe", 400),
        ("/v3/discovery:clusters", b'{"node": 3}', 400),
        ("/v3/discovery:clusters", b"{}", 400),
        ("/v3/discovery:listeners", b'{"node": {"id": "n"}}', 404),
    ],
)
async def test_rest_says_what_is_wrong(
    server: XdsServer[None], path: str, body: bytes, status: int
) -> None:
    answer = await answer_rest(server, path, body, PEER)
    assert answer.status == status
    assert answer.body


async def test_rest_before_it_is_ready_is_unavailable(state: State) -> None:
    server: XdsServer[None] = XdsServer({types.CLUSTER: state}, admit=admit_all)
    body = dumped({"node": {"id": "n"}})
    assert (await answer_rest(server, "/v3/discovery:clusters", body, PEER)).status == 503


async def test_rest_without_json_for_a_resource_says_so(
    server: XdsServer[None], state: State, make: Make
) -> None:
    state.set(replace(make.cluster("a"), body=b"\xff\xff"))
    body = dumped({"node": {"id": "n"}})
    answer = await answer_rest(server, "/v3/discovery:clusters", body, PEER)
    assert answer.status == 500


def dumped(request: dict[str, Any]) -> bytes:
    return json.dumps(request).encode()
