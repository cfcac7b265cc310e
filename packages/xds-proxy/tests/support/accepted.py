"""Responses as Envoy accepts them, built by the real protobuf classes, and saved files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.core.v3 import extension_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf.message import Message

from xds_proxy._config import SavedConfig
from xds_proxy.saved._store import Owner

PREFIX = "type.googleapis.com/"
CLUSTER = PREFIX + "envoy.config.cluster.v3.Cluster"
ENDPOINT = PREFIX + "envoy.config.endpoint.v3.ClusterLoadAssignment"
LISTENER = PREFIX + "envoy.config.listener.v3.Listener"
ROUTE = PREFIX + "envoy.config.route.v3.RouteConfiguration"
EXTENSION = PREFIX + "envoy.config.core.v3.TypedExtensionConfig"
SECRET = PREFIX + "envoy.extensions.transport_sockets.tls.v3.Secret"

OWNER = Owner({"identity": "spiffe://td/ns/shop/sa/cart", "node id": "a"}, ("istiod:15012",))


def saved_config(directory: Path, **values: float) -> SavedConfig:
    """Return a configuration for tests; nothing waits."""
    return SavedConfig(
        directory=directory,
        max_bytes=int(values.get("max_bytes", 1 << 20)),
        max_resources=int(values.get("max_resources", 1000)),
        max_age_s=values.get("max_age_s", 3600.0),
        start_after_s=values.get("start_after_s", 0.0),
        min_interval_s=values.get("min_interval_s", 0.0),
    )


def resource(type_url: str, name: str, text: str = "") -> Message:
    """Return a resource of a type with a name and, somewhere in it, a text."""
    message: Message
    match type_url:
        case str() if type_url == CLUSTER:
            message = cluster_pb2.Cluster(name=name, alt_stat_name=text)
        case str() if type_url == ENDPOINT:
            message = endpoint_pb2.ClusterLoadAssignment(cluster_name=name)
        case str() if type_url == LISTENER:
            message = listener_pb2.Listener(name=name, stat_prefix=text)
        case str() if type_url == ROUTE:
            headers = [text] if text else []
            message = route_pb2.RouteConfiguration(name=name, internal_only_headers=headers)
        case _:
            message = extension_pb2.TypedExtensionConfig(name=name)
    return message


def everything(
    type_url: str, resources: Mapping[str, str], *, version: str = "1", nonce: str = "n"
) -> bytes:
    """Return a state-of-the-world response with these resources, by name, and a text in each."""
    message = discovery_pb2.DiscoveryResponse(version_info=version, type_url=type_url, nonce=nonce)
    for name, text in resources.items():
        message.resources.add().Pack(resource(type_url, name, text))
    return bytes(message.SerializeToString())


def difference(
    type_url: str,
    resources: Mapping[str, str],
    *,
    removed: Sequence[str] = (),
    version: str = "1",
    nonce: str = "n",
) -> bytes:
    """Return a delta response; the text of a resource is its version too."""
    message = discovery_pb2.DeltaDiscoveryResponse(
        system_version_info=version, type_url=type_url, nonce=nonce, removed_resources=removed
    )
    for name, text in resources.items():
        added = message.resources.add(name=name, version=text)
        added.resource.Pack(resource(type_url, name, text))
    return bytes(message.SerializeToString())
