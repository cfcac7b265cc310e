"""A sidecar or a gRPC program without one, and what it is given as JSON."""

from typing import Any

from google.protobuf import any_pb2, json_format

from mesh_discovery.plan._proxy import Proxy
from proxies import proxy_of
from xds_server import Generated, Node


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
