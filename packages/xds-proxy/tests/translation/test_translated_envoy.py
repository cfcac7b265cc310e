"""A real Envoy of one dialect under a real control plane of the other, through the relay."""

from __future__ import annotations

from pathlib import Path

import pytest
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.core.v3 import config_source_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from envoy.extensions.filters.http.router.v3 import router_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import (
    http_connection_manager_pb2,
)
from google.protobuf.message import Message

from envoys import running_envoy
from mesh_testkit import until
from model_envoys import CLUSTER, ENDPOINT, LISTENER, ROUTE
from relays import RelayStarter
from xds_planes import DELTA_METHOD, SOTW_METHOD, SnapshotPlane, snapshot_plane

_TYPES = (CLUSTER, ENDPOINT, LISTENER, ROUTE)


def _cluster(name: str, *, timeout_s: int = 1) -> cluster_pb2.Cluster:
    cluster = cluster_pb2.Cluster(name=name, type=cluster_pb2.Cluster.EDS)
    cluster.connect_timeout.seconds = timeout_s
    source = cluster.eds_cluster_config.eds_config
    source.ads.SetInParent()
    source.resource_api_version = config_source_pb2.V3
    return cluster


def _listener(name: str, route: str) -> listener_pb2.Listener:
    manager = http_connection_manager_pb2.HttpConnectionManager(stat_prefix=name)
    manager.rds.route_config_name = route
    manager.rds.config_source.ads.SetInParent()
    manager.rds.config_source.resource_api_version = config_source_pb2.V3
    manager.http_filters.add(name="router").typed_config.Pack(router_pb2.Router())
    listener = listener_pb2.Listener(name=name)
    listener.address.pipe.path = f"@xds-proxy-test-{name}"
    listener.bind_to_port.value = False
    listener.filter_chains.add().filters.add(name="http").typed_config.Pack(manager)
    return listener


def _configuration(*names: str, timeout_s: int = 1) -> list[tuple[str, Message]]:
    found: list[tuple[str, Message]] = []
    for name in names:
        found.append((name, _cluster(name, timeout_s=timeout_s)))
        found.append((name, endpoint_pb2.ClusterLoadAssignment(cluster_name=name)))
        route = route_pb2.RouteConfiguration(name=name)
        host = route.virtual_hosts.add(name=name, domains=["*"])
        to_cluster = host.routes.add()
        to_cluster.match.prefix = "/"
        to_cluster.route.cluster = name
        found.append((name, _listener(name, name)))
        found.append((name, route))
    return found


async def _until_accepted(plane: SnapshotPlane, names: set[str]) -> None:
    """Wait until Envoy asks for these endpoints and routes, and has accepted all of each type."""

    def accepted() -> bool:
        for client in plane.server.clients():
            types = client.types
            if (
                types.keys() >= set(_TYPES)
                and all(types[each].in_sync and types[each].nack is None for each in _TYPES)
                and types[ENDPOINT].names == names
                and types[ROUTE].names >= names  # a draining listener keeps its routes
                and types[CLUSTER].resources == len(names)
            ):
                return True
        return False

    await until(accepted, what=f"{names} in Envoy", seen=plane.server.clients)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("api_type", "served"),
    [
        pytest.param("GRPC", DELTA_METHOD, id="sotw Envoy"),
        pytest.param("DELTA_GRPC", SOTW_METHOD, id="delta Envoy"),
    ],
)
async def test_an_envoy_follows_a_control_plane_of_the_other_dialect(
    start_relay: RelayStarter, envoy_binary: Path, *, api_type: str, served: str
) -> None:
    async with (
        snapshot_plane(served) as plane,
        start_relay(plane.address) as running,
        running_envoy(envoy_binary, running.socket_path, api_type),
    ):
        plane.set(_configuration("a", "b"))
        await _until_accepted(plane, {"a", "b"})
        plane.set(_configuration("b", "c", timeout_s=2))
        await _until_accepted(plane, {"b", "c"})
        plane.set([*_configuration("b", "c", timeout_s=2), ("bad", _cluster("bad", timeout_s=-1))])
        await until(lambda: plane.nacks(CLUSTER), what="the NACK")
        status = running.relay.status.types[CLUSTER]
        assert plane.nacks(CLUSTER) == [status.nack]
        plane.set(_configuration("b", "c", "d", timeout_s=2))
        await _until_accepted(plane, {"b", "c", "d"})
