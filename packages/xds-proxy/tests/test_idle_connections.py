"""A thousand connections at Envoy's socket that say nothing, and an Envoy beside them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from mesh_listening import UNIX_LIMITS, Reason
from mesh_testkit import idle_connections, until
from xds_proxy import OnDisconnect, RelayConfig, UpstreamConfig, relaying

IDLE = 1000
CALL = """
import asyncio, sys, grpc.aio
ADS = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
async def main():
    async with grpc.aio.insecure_channel("unix:" + sys.argv[1]) as channel:
        # Nothing is written: the relay may end the call before that is done.
        print(await channel.stream_stream(ADS, None, None)(None).details())
asyncio.run(main())
"""


async def test_a_thousand_idle_connections_of_one_process_leave_room_for_an_envoy(
    socket_dir: Path,
) -> None:
    path = socket_dir / "proxy" / "XDS"
    config = RelayConfig(
        socket_path=path,
        # No server listens there: the relay's own words show that the call came to it.
        upstream=UpstreamConfig(address="127.0.0.1:9", root_certificate=None),
        on_disconnect=OnDisconnect.END,
        # The time is long, so that silence alone ends none of them.
        limits=UNIX_LIMITS._replace(first_byte_s=300.0),
    )
    async with relaying(config) as relay:
        with idle_connections(path, IDLE):
            await until(lambda: relay.port.accepted == IDLE, what="all of them")
            most = relay.port.limits.peer
            assert relay.port.refused == {Reason.PEER_FULL: IDLE - most}
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-c", CALL, str(path), stdout=asyncio.subprocess.PIPE
            )
            output, _ = await child.communicate()
            assert output.startswith(b"cannot reach the control plane at 127.0.0.1:9")
