"""Packs Envoy's messages that bear a name as resources."""

from typing import TYPE_CHECKING

from xds_server import Resource

if TYPE_CHECKING:
    from envoy.config.cluster.v3.cluster_pb2 import Cluster
    from envoy.config.listener.v3.listener_pb2 import Listener
    from envoy.config.route.v3.route_pb2 import RouteConfiguration


def named(message: "Cluster | Listener | RouteConfiguration") -> Resource:
    """Pack a message under its own name."""
    return Resource.pack(message, name=message.name)
