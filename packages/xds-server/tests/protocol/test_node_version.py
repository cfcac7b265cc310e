"""The version of a client is in its node, given as text or, as Envoys do, by numbers."""

import pytest
from envoy.config.core.v3 import base_pb2
from envoy.type.v3 import semantic_version_pb2

from xds_server.protocol._node import node_from_bytes

_VERSION = semantic_version_pb2.SemanticVersion(major_number=1, minor_number=40)


@pytest.mark.parametrize(
    ("node", "user_agent"),
    [
        (base_pb2.Node(user_agent_name="envoy"), "envoy"),
        (base_pb2.Node(user_agent_name="grpc", user_agent_version="1.2"), "grpc/1.2"),
        (
            base_pb2.Node(
                user_agent_name="envoy",
                user_agent_build_version=base_pb2.BuildVersion(version=_VERSION),
            ),
            "envoy/1.40.0",
        ),
        (
            base_pb2.Node(
                user_agent_name="envoy", user_agent_build_version=base_pb2.BuildVersion()
            ),
            "envoy",
        ),
    ],
)
def test_a_version_comes_after_the_name(node: base_pb2.Node, user_agent: str) -> None:
    assert node_from_bytes(node.SerializeToString()).user_agent == user_agent
