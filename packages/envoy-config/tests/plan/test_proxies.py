"""What a node says of itself makes a proxy, or is refused with the reason."""

import pytest

from envoy_config import NodeError, NotServedError
from proxies import proxy, proxy_of
from xds_server import Node


@pytest.mark.parametrize(
    ("node", "wanted"),
    [
        ("sidecar~1.1.1.1~web.default", "is not type~address~id~domain"),
        ("ztunnel~1.1.1.1~web.default~default.x", "the type is not sidecar or router"),
        ("sidecar~nowhere~web.default~default.x", "has no valid address"),
        ("sidecar~1.1.1.1~web.default~", "names no namespace"),
    ],
)
def test_a_node_that_cannot_be_served_is_given_the_reason(node: str, wanted: str) -> None:
    with pytest.raises(NodeError, match=wanted):
        proxy_of(Node(id=node))


def test_an_unknown_interception_mode_is_refused_and_addresses_are_checked() -> None:
    with pytest.raises(NotServedError, match="to one of NONE, REDIRECT, TPROXY"):
        proxy(INTERCEPTION_MODE="SIPHON")
    with pytest.raises(NodeError, match="APP_ADDRESS is 'app', which is not an IP address"):
        proxy(APP_ADDRESS="app")
    assert proxy(INSTANCE_IPS="10.0.0.1, 10.0.0.2,x").addresses == ("10.0.0.1", "10.0.0.2")
