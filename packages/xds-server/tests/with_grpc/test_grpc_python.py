"""gRPC's own xDS client, which asks for each thing by name: listener, route, cluster, endpoints."""

from __future__ import annotations

import sys
from typing import Any

from xds_server import Listener

CLIENT = """
import sys
import grpc, grpc_csds
from envoy.service.status.v3 import csds_pb2

channel = grpc.insecure_channel("xds:///web")
ask = channel.unary_unary("/test.Who/AmI", None, None)
for line in sys.stdin:
    if line.strip() == "ask":
        print(ask(b"", wait_for_ready=True).decode(), flush=True)
    else:
        servicer = grpc_csds.ClientStatusDiscoveryServiceServicer()
        status = servicer.FetchClientStatus(csds_pb2.ClientStatusRequest(), None)
        states = {
            (kind.type_url.rpartition(".")[2], kind.client_status)
            for config in status.config for kind in config.generic_xds_configs
        }
        print(sorted(states), flush=True)
"""

ACKED = 3


async def test_it_resolves_follows_endpoints_and_has_accepted_everything(
    listener: Listener, followed: Any
) -> None:
    async with followed(listener, sys.executable, "-c", CLIENT) as client:
        kinds = ("Cluster", "ClusterLoadAssignment", "Listener", "RouteConfiguration")
        assert await client.tell("status") == str([(kind, ACKED) for kind in kinds])
