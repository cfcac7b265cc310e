"""Any bytes as a node, as a proxy says what it is: a proxy, or a reason why it is not served."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from envoy.config.core.v3.base_pb2 import Node as NodeMessage
from google.protobuf import json_format
from google.protobuf.message import DecodeError

from envoy_config import NodeError, Proxy, parse_proxy
from istio_config.kinds.mesh_config import InterceptionMode
from xds_server import Node


def check(data: bytes) -> None:
    """NodeError is the only error; equal nodes make equal proxies."""
    node = _node(data)
    if node is None:
        return
    with suppress(NodeError):
        proxy = _proxy(node)
        assert proxy.addresses
        assert proxy.namespace
        assert _proxy(node) == proxy


def _proxy(node: Node) -> Proxy:
    return parse_proxy(
        node,
        domain_suffix="cluster.local",
        source="",
        mesh_interception=InterceptionMode.NONE,
    )


def _node(data: bytes) -> Node | None:
    try:
        message = NodeMessage.FromString(data)
        metadata = json_format.MessageToDict(message.metadata)
    except (DecodeError, ValueError, json_format.Error, RecursionError):
        return None
    return Node(
        id=message.id,
        cluster=message.cluster,
        metadata=metadata,
        region=message.locality.region,
        zone=message.locality.zone,
        sub_zone=message.locality.sub_zone,
        user_agent=message.user_agent_name,
    )


def originals() -> Iterator[bytes]:
    """Nodes of a sidecar, a router and a gRPC program."""
    node = NodeMessage()
    node.id = "sidecar~10.0.0.1~web.default~default.svc.cluster.local"
    node.cluster, node.locality.region = "web.default", "eu"
    node.metadata.update(
        {
            "NAMESPACE": "default",
            "LABELS": {"app": "web", "topology.istio.io/network": "n"},
            "INSTANCE_IPS": "10.0.0.1,fe80::1",
            "INTERCEPTION_MODE": "REDIRECT",
            "PROXY_CONFIG": {"gatewayTopology": {"numTrustedProxies": 2}, "concurrency": 1},
            "DNS_CAPTURE": "true",
            "IDLE_TIMEOUT": "5s",
        }
    )
    yield node.SerializeToString()
    node.id = "router~10.0.0.2~gw.default~default.svc.cluster.local"
    node.metadata.update({"APP_ADDRESS": "127.1.1.2", "OUTBOUND_BIND_ADDRESS": "127.1.1.3"})
    yield node.SerializeToString()
    node.id = "sidecar~10.0.0.1~a~b.c"
    node.metadata.update({"GENERATOR": "grpc", "UNPRIVILEGED_POD": "true"})
    yield node.SerializeToString()
