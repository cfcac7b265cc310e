"""The checker of Envoy's field rules finds what breaks them."""

import pytest
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.core.v3 import base_pb2
from envoy.config.route.v3 import route_components_pb2
from google.protobuf import any_pb2, json_format
from google.protobuf.message import Message

from drawn_meshes import broken_rules

CLUSTER = cluster_pb2.Cluster
HOST = route_components_pb2.VirtualHost


@pytest.mark.parametrize(
    ("kind", "fields", "mistakes"),
    [
        (CLUSTER, {"name": "a"}, []),
        (CLUSTER, {}, [".name: '': min_len 1"]),
        (
            any_pb2.Any,
            {
                "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
                "name": "a",
                "connect_timeout": "-1s",
            },
            ["<Cluster>.connect_timeout: -1s is not gt its bound"],
        ),
        (CLUSTER, {"name": "a", "lb_policy": 77}, [".lb_policy: 77 is not defined"]),
        (HOST, {"name": "a"}, [".domains: at least 1 items"]),
        (
            HOST,
            {"name": "a", "domains": ["*"], "routes": [{"name": "r"}]},
            [".routes[0]: one of action is required", ".routes[0].match: is required"],
        ),
        (
            base_pb2.HeaderValueOption,
            {"header": {"key": "a\nb", "value": "c"}},
            [".header.key: 'a\\nb' is no header"],
        ),
    ],
)
def test_what_breaks_a_rule_is_reported_with_its_field(
    kind: type[Message], fields: dict[str, object], mistakes: list[str]
) -> None:
    assert list(broken_rules(json_format.ParseDict(fields, kind()))) == mistakes
