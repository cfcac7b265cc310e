"""What holds of the plan of a router whatever Gateways it has."""

from itertools import combinations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from envoy_config.plan.gateway._servers import PlannedServer, plan_router
from istio_config.kinds.gateway import GatewaySpec
from mesh_model import Gateway

MODES = ("SIMPLE", "PASSTHROUGH", "ISTIO_MUTUAL")
HOSTS = ("*", "a.example", "*.example", "shop/a.example", "./b.example", "other/*")

SERVERS = st.builds(
    lambda number, protocol, hosts, mode, bind, redirects: {
        "port": {"number": number, "protocol": protocol, "name": f"{protocol}-{number}"},
        "hosts": hosts,
        "bind": bind,
        **(
            {"tls": {"mode": mode, "credentialName": "x" if mode == "SIMPLE" else ""}}
            if protocol in ("HTTPS", "TLS")
            else {"tls": {"httpsRedirect": True}}
            if redirects and protocol == "HTTP"
            else {}
        ),
    },
    st.sampled_from((80, 443)),
    st.sampled_from(("HTTP", "GRPC", "HTTPS", "TLS", "TCP")),
    st.lists(st.sampled_from(HOSTS), min_size=1, max_size=2, unique=True),
    st.sampled_from(MODES),
    st.sampled_from(("", "", "10.0.0.1", "0.0.0.0")),  # noqa: S104 - nothing listens
    st.booleans(),
)
GATEWAYS = st.lists(st.lists(SERVERS, min_size=1, max_size=3), max_size=4).map(
    lambda found: [
        Gateway(
            namespace="shop",
            name=f"gw-{index}",
            spec=msgspec.convert({"servers": servers}, GatewaySpec),
            own_namespace_only=False,
        )
        for index, servers in enumerate(found)
    ]
)


@given(GATEWAYS)
def test_each_server_is_opened_or_left_out_and_never_both(gateways: list[Gateway]) -> None:
    plan = plan_router(gateways, target_ports={})
    opened = [
        (each.gateway, each.index) for listener in plan.listeners for each in listener.servers
    ]
    left_out = [(each.gateway, each.server_index) for each in plan.left_out]
    every = [(each.name, index) for each in gateways for index in range(len(each.spec.servers))]
    assert sorted([*opened, *left_out]) == every


@given(GATEWAYS)
def test_connections_of_a_listener_can_be_distinguished(gateways: list[Gateway]) -> None:
    for listener in plan_router(gateways, target_ports={}).listeners:
        plain = [each for each in listener.servers if not each.is_tls]
        assert len(plain) <= 1 or all(each.is_http for each in plain)
        if plain and listener.servers[0] in plain:
            assert len(plain) == len(listener.servers)
        ended = [each for each in listener.servers if each.ends_tls]
        for one, other in combinations(ended, 2):
            assert not _names(one) & _names(other)
            assert not one.route or one.route != other.route


@given(GATEWAYS)
def test_first_server_of_a_place_is_the_oldest(gateways: list[Gateway]) -> None:
    for listener in plan_router(gateways, target_ports={}).listeners:
        order = [(each.gateway, each.index) for each in listener.servers]
        assert order == sorted(order)


def _names(server: PlannedServer) -> set[str]:
    return set(server.server_names) or {"*"}
