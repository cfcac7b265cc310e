"""The dialect that a real Envoy speaks, by the bootstrap that the agent makes for it."""

import asyncio
from pathlib import Path

import pytest
from envoy.service.discovery.v3 import discovery_pb2

from certclient.testing import FakeAuthority
from mesh_agent import Flags, load_config, run
from mesh_protos import type_urls
from mesh_testkit import PATIENCE_S
from running_agents import environment_of, mount
from xds_proxy.testing import control_plane

SOTW, DELTA = "StreamAggregatedResources", "DeltaAggregatedResources"


@pytest.mark.parametrize(
    ("setting", "method"),
    [
        ({}, DELTA),
        ({"ISTIO_DELTA_XDS": "true"}, DELTA),
        ({"ISTIO_DELTA_XDS": "false"}, SOTW),
    ],
    ids=["unset", "true", "false"],
)
async def test_envoy_opens_the_stream_of_the_dialect_that_is_set(
    socket_dir: Path, envoy_binary: Path, *, setting: dict[str, str], method: str
) -> None:
    """The control plane has both methods, so that nothing is translated."""
    await mount(socket_dir, FakeAuthority())
    async with control_plane() as plane:
        config = load_config(
            Flags(envoy_path=str(envoy_binary)),
            environ={**environment_of(plane, {"terminationDrainDuration": "0s"}), **setting},
            directory=socket_dir,
            version="1",
        )
        agent = asyncio.create_task(run(config), name="agent")
        try:
            async with asyncio.timeout(PATIENCE_S):
                stream = await plane.accept()
                first = await stream.receive()
            assert first is not None
            assert stream.method == method
            if method == DELTA:
                delta = discovery_pb2.DeltaDiscoveryRequest.FromString(first)
                assert delta.type_url == type_urls.CLUSTER
            else:
                assert (
                    discovery_pb2.DiscoveryRequest.FromString(first).type_url == type_urls.CLUSTER
                )
        finally:
            agent.cancel()
            await asyncio.wait([agent])
