"""The connected clients as a resource type: clients that watch it see others come and go."""

from __future__ import annotations

from envoy.config.core.v3 import base_pb2

from xds_server.protocol._resource import Resource
from xds_server.protocol._watch import Watch
from xds_server.pushing._push_request import PushRequest
from xds_server.sources._generated import Generated
from xds_server.sources._generator import Client


class ConnectedClients:
    """A generator of one `envoy.config.core.v3.Node` for every stream, named by the stream's id.

    Serve it under a type URL of your choice, to clients that may know of each other. The resource
    has the id, cluster, locality and user agent of a node, but not its metadata.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, Resource] = {}
        self._all: Generated | None = None

    def on_connect(self, client: Client[object], /) -> None:
        self._nodes[client.id] = _node_resource(client)
        self._all = None

    def on_disconnect(self, client: Client[object], /) -> None:
        self._nodes.pop(client.id, None)
        self._all = None

    def generate(
        self, _client: Client[object], watch: Watch, _push: PushRequest | None, /
    ) -> Generated:
        if self._all is None:
            self._all = Generated(resources=tuple(self._nodes.values()))
        if watch.wildcard:
            return self._all
        named = tuple(node for name, node in self._nodes.items() if watch.covers(name))
        return Generated(resources=named, removed=watch.names - self._nodes.keys())


def _node_resource(client: Client[object]) -> Resource:
    node = client.node
    message = base_pb2.Node(id=node.id, cluster=node.cluster)
    message.user_agent_name, _, message.user_agent_version = node.user_agent.partition("/")
    if node.region or node.zone or node.sub_zone:
        message.locality.region = node.region
        message.locality.zone = node.zone
        message.locality.sub_zone = node.sub_zone
    return Resource.pack(message, name=client.id)
