"""Sidecars and gRPC programs of a mesh with the usual settings, and what they are given as JSON."""

from typing import Any

from google.protobuf import any_pb2, json_format

from envoy_config.plan._proxy import Proxy, parse_proxy
from istio_config.kinds.mesh_config import InterceptionMode
from xds_server import Generated, Node


def proxy_of(
    node: Node,
    *,
    source: str = "",
    mesh_interception: InterceptionMode = InterceptionMode.NONE,
) -> Proxy:
    """Read a node of a mesh with the domain `cluster.local`."""
    return parse_proxy(
        node,
        domain_suffix="cluster.local",
        source=source,
        mesh_interception=mesh_interception,
    )


def proxy(address: str = "127.93.1.1", *, name: str = "web", **metadata: Any) -> Proxy:
    return proxy_of(
        Node(
            id=f"sidecar~{address}~{name}.default~default.svc.cluster.local",
            metadata={
                "APP_ADDRESS": "127.93.1.2",
                "OUTBOUND_BIND_ADDRESS": "127.93.1.3",
                **metadata,
            },
        )
    )


def proxyless(
    address: str = "10.0.0.1", *, name: str = "greeter", namespace: str = "shop", **metadata: Any
) -> Proxy:
    """Return a gRPC program without an Envoy; its agent tells what Istio's does."""
    return proxy_of(
        Node(
            id=f"sidecar~{address}~{name}.{namespace}~{namespace}.svc.cluster.local",
            metadata={"GENERATOR": "grpc", "INTERCEPTION_MODE": "REDIRECT", **metadata},
        )
    )


def as_json(generated: Generated) -> list[Any]:
    return [
        json_format.MessageToDict(
            any_pb2.Any(type_url=each.type_url, value=each.body), preserving_proto_field_name=True
        )
        for each in generated.resources
    ]
