"""The status service, asked as a tool would ask it."""

from __future__ import annotations

from typing import Any

import grpc.aio
from envoy.admin.v3 import config_dump_shared_pb2
from envoy.service.status.v3 import csds_pb2

from xds_server import ClientStatusHandler, PlainListener, PushRequest, XdsServer, serving
from xds_server import type_urls as types
from xds_server.testing import SotwClient, admit_all, over_grpc
from xds_state import Make, State

PATH = "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus"


async def test_it_says_what_was_accepted_refused_and_not_found(state: State, make: Make) -> None:
    state.set(make.listener("l"), make.route("r"))
    server: XdsServer[None] = XdsServer(
        {types.LISTENER: state, types.ROUTE: state}, admit=admit_all
    )
    server.set_ready()
    handlers = [ClientStatusHandler(server)]
    async with serving(server, [PlainListener()], extra_handlers=handlers) as bound:
        async with (
            over_grpc(bound.addresses[0]) as wire,
            grpc.aio.insecure_channel(bound.addresses[0]) as channel,
        ):
            client = SotwClient(wire, node_id="n")
            await client.subscribe(types.LISTENER)
            await client.next()
            await client.subscribe(types.ROUTE, "r", "missing")
            await client.nack(await client.receive(), "no good")
            state.set(make.listener("l", change=1))
            server.push_now(PushRequest())
            await client.next()  # so that what was said before it has been heard
            query = channel.unary_unary(
                PATH,
                csds_pb2.ClientStatusRequest.SerializeToString,
                csds_pb2.ClientStatusResponse.FromString,
            )
            response: Any = await query(csds_pb2.ClientStatusRequest())
            no_client: Any = csds_pb2.ClientStatusRequest()
            no_client.node_matchers.add().node_id.exact = "somebody else"
            assert not (await query(no_client)).config
    (config,) = response.config
    assert config.node.id == "n"
    states = config_dump_shared_pb2.ClientResourceStatus
    found = {entry.name: entry for entry in config.generic_xds_configs}
    assert found["r"].client_status == states.NACKED
    assert found["r"].error_state.details == "no good"
    assert found["missing"].client_status == states.DOES_NOT_EXIST
    assert found["l"].client_status in {states.ACKED, states.REQUESTED}
    assert found["l"].version_info == state.resources[types.LISTENER]["l"].version
