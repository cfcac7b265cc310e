"""Which outbound listeners redirected proxies get, and which chains in them."""

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from documents import entry
from envoy_config.plan._proxy import NO_DNS, Naming
from envoy_config.plan.l4._chains import TcpChain, to_cluster
from envoy_config.plan.l4._routes import NO_ROUTES
from envoy_config.plan.l4._targets import Targets
from envoy_config.plan.redirected._egress import Egress
from envoy_config.plan.redirected._listeners import HttpChain, RedirectedListener, ip_versions
from envoy_config.plan.redirected._outbound import RedirectedOutbound, plan_redirected_outbound
from istio_config.kinds.protocol import Protocol
from istio_config.kinds.service_entry import Resolution
from mesh_model import Endpoint, MeshModel, Port, Registry, Service

Build = Callable[..., MeshModel]
REST = to_cluster("PassthroughCluster")


def planned(
    services: Iterable[Service],
    *,
    own: tuple[str, ...] = ("10.0.0.1",),
    naming: Naming = NO_DNS,
) -> RedirectedOutbound:
    services = tuple(services)
    targets = Targets({each.host: each for each in services})
    return plan_redirected_outbound(
        [Egress(services=services, routes=NO_ROUTES, targets=targets)],
        ips=ip_versions(own),
        rest=REST,
        naming=naming,
        own_ports=(15001, 15006),
    )


def shown(listener: RedirectedListener) -> str:
    """Spell a listener: its place, and the chains as what they match and where they lead."""
    chains = []
    for each in listener.chains:
        if isinstance(each, HttpChain):
            chains.append(f"{'http?' if each.detected else 'http'} {each.route}")
        else:
            matched = ",".join((*each.server_names, *each.prefixes)) or "all"
            chains.append(f"{matched} {each.target.clusters[0].name.split('|')[-1]}")
    further = "".join(f"+{each}" for each in listener.further)
    return f"{listener.bind}{further}:{listener.port} [{'; '.join(chains)}]"


@pytest.mark.parametrize(
    ("entries", "wanted"),
    [
        pytest.param(
            [
                "hosts: [a.x], ports: [{number: 80, name: http, protocol: HTTP}]",
                (
                    "hosts: [b.x], addresses: [10.1.1.1], "
                    "ports: [{number: 80, name: http-b, protocol: HTTP}]"
                ),
            ],
            ["0.0.0.0:80 [http? 80]"],
            id="all HTTP services of a port share one listener, whatever their addresses",
        ),
        pytest.param(
            [
                (
                    "hosts: [a.x], addresses: [10.1.1.1], "
                    "ports: [{number: 90, name: tcp, protocol: TCP}]"
                )
            ],
            ["10.1.1.1:90 [all a.x]"],
            id="a TCP service has a listener at its address",
        ),
        pytest.param(
            [
                (
                    "hosts: [a.x], addresses: [10.1.1.1, 10.1.1.2], "
                    "ports: [{number: 90, name: tcp, protocol: TCP}]"
                )
            ],
            ["10.1.1.1+10.1.1.2:90 [all a.x]"],
            id="further addresses are further addresses of the listener",
        ),
        pytest.param(
            ["hosts: [a.x], ports: [{number: 90, name: tcp, protocol: TCP}]"],
            ["0.0.0.0:90 [all a.x]"],
            id="a TCP service without address has the port",
        ),
        pytest.param(
            ["hosts: [a.x], addresses: [10.1.1.1], ports: [{number: 90, name: x}]"],
            ["10.1.1.1:90 [http? a.x:90; all a.x]"],
            id="an undeclared port is looked at, with routes of its own at its address",
        ),
        pytest.param(
            ["hosts: [a.x], ports: [{number: 90, name: x}]"],
            ["0.0.0.0:90 [http? 90; all a.x]"],
            id="an undeclared port without address has the routes of the port",
        ),
        pytest.param(
            [
                (
                    "hosts: [a.x], addresses: [10.2.0.0/16], "
                    "ports: [{number: 90, name: tcp, protocol: TCP}]"
                )
            ],
            ["0.0.0.0:90 [10.2.0.0/16 a.x]"],
            id="a range is recognised by where a connection was going",
        ),
        pytest.param(
            [
                "hosts: [a.x], ports: [{number: 443, name: tls, protocol: TLS}]",
                "hosts: ['*.B.x'], ports: [{number: 443, name: https, protocol: HTTPS}]",
            ],
            ["0.0.0.0:443 [a.x a.x; *.b.x *.b.x]"],
            id="TLS services without addresses are distinguished by SNI",
        ),
        pytest.param(
            [
                (
                    "hosts: [a.x], addresses: [10.1.1.1], "
                    "ports: [{number: 443, name: tls, protocol: TLS}]"
                )
            ],
            ["10.1.1.1:443 [all a.x]"],
            id="a TLS service with an address needs no SNI",
        ),
        pytest.param(
            [
                "hosts: [a.x], ports: [{number: 80, name: tcp, protocol: TCP}]",
                "hosts: [b.x], ports: [{number: 80, name: http, protocol: HTTP}]",
            ],
            ["0.0.0.0:80 [http? 80; all a.x]"],
            id="HTTP and TCP of one port are distinguished by the first bytes",
        ),
        pytest.param(
            [
                (
                    "hosts: [a.x], ports: [{number: 15021, name: http, protocol: HTTP}, "
                    "{number: 15001, name: tcp, protocol: TCP}]"
                )
            ],
            [],
            id="ports of the proxy itself are not taken",
        ),
        pytest.param(
            ["hosts: [a.x], ports: [{number: 53, name: udp, protocol: UDP}]"],
            [],
            id="UDP is not carried",
        ),
    ],
)
def test_services_get_the_listeners_that_their_addresses_and_protocols_ask_for(
    model_of: Build, entries: list[str], wanted: list[str]
) -> None:
    model = model_of(*(entry(f"e{number}", each) for number, each in enumerate(entries)))

    plan = planned(model.services)

    assert [shown(each) for each in plan.listeners] == wanted


@pytest.mark.parametrize(
    ("entries", "wanted", "lost"),
    [
        pytest.param(
            [
                "hosts: [a.x], ports: [{number: 90, name: tcp, protocol: TCP}]",
                "hosts: [b.x], ports: [{number: 90, name: tcp, protocol: TCP}]",
            ],
            ["0.0.0.0:90 [all a.x]"],
            ["b.x"],
            id="of two TCP services without addresses the older has the port",
        ),
        pytest.param(
            [
                "hosts: [a.x], ports: [{number: 90, name: mongo, protocol: MONGO}]",
                "hosts: [b.x], ports: [{number: 90, name: http, protocol: HTTP}]",
            ],
            ["0.0.0.0:90 [all a.x]"],
            ["b.x"],
            id="mongo shares its port with no other protocol",
        ),
        pytest.param(
            [
                (
                    "hosts: [a.x], addresses: [10.1.1.1, 10.1.1.2], "
                    "ports: [{number: 90, name: tcp, protocol: TCP}]"
                ),
                (
                    "hosts: [b.x], addresses: [10.1.1.2], "
                    "ports: [{number: 90, name: tcp, protocol: TCP}]"
                ),
            ],
            ["10.1.1.1+10.1.1.2:90 [all a.x]"],
            ["b.x"],
            id="a further address is taken as the first is",
        ),
        pytest.param(
            ["hosts: [a.x], ports: [{number: 15001, name: http, protocol: HTTP}]"],
            [],
            ["a.x"],
            id="ports of the proxy",
        ),
        pytest.param(
            [
                "hosts: [a.x], ports: [{number: 90, name: x}]",
                "hosts: [b.x], ports: [{number: 90, name: x}]",
            ],
            ["0.0.0.0:90 [http? 90; all a.x]"],
            ["b.x"],
            id="of two undeclared ports the requests of both, and the connections of the older",
        ),
    ],
)
def test_a_service_that_loses_connections_to_an_older_one_is_reported(
    model_of: Build, entries: list[str], wanted: list[str], lost: list[str]
) -> None:
    model = model_of(*(entry(f"e{number}", each) for number, each in enumerate(entries)))

    plan = planned(model.services)

    assert [shown(each) for each in plan.listeners] == wanted
    assert [each.host for each in plan.conflicts] == lost


def headless(*addresses: str, port_name: str = "tcp") -> Service:
    number = 90
    return Service(
        host="h.b.svc.cluster.local",
        namespace="b",
        name="h",
        ports=(
            Port(
                number=number,
                name=port_name,
                protocol=Protocol.from_port_name(port_name) or Protocol.AUTO,
                target=number,
            ),
        ),
        endpoints=tuple(Endpoint(address=each, ports=(), namespace="b") for each in addresses),
        resolution=Resolution.NONE,
        external=False,
        registry=Registry.KUBERNETES,
    )


def test_each_endpoint_of_a_headless_service_has_a_listener_of_its_own() -> None:
    plan = planned([headless("10.0.0.5", "10.0.0.6", "fd00::5")])

    assert plan.listeners == ()
    assert {key: [shown(each) for each in found] for key, found in plan.of_endpoints.items()} == {
        "10.0.0.5": ["10.0.0.5:90 [all h.b.svc.cluster.local]"],
        "10.0.0.6": ["10.0.0.6:90 [all h.b.svc.cluster.local]"],
    }


def test_a_headless_service_without_endpoints_has_no_listener_and_its_http_the_ports() -> None:
    assert planned([headless()]).listeners == ()
    (listener,) = planned([headless("10.0.0.5", port_name="http")]).listeners
    assert shown(listener) == "0.0.0.0:90 [http? 90]"


def test_addresses_of_the_proxys_versions_of_ip_are_taken(model_of: Build) -> None:
    model = model_of(
        entry(
            "a",
            (
                "hosts: [a.x], addresses: [fd00::1, 10.1.1.1], "
                "ports: [{number: 90, name: tcp, protocol: TCP}]"
            ),
        )
    )

    found = {
        own: [shown(each) for each in planned(model.services, own=own).listeners]
        for own in (("10.0.0.1",), ("fd77::1",), ("fd77::1", "10.0.0.1"))
    }

    assert list(found.values()) == [
        ["10.1.1.1:90 [all a.x]"],
        ["fd00::1:90 [all a.x]"],
        ["10.1.1.1+fd00::1:90 [all a.x]"],
    ]


def test_a_proxy_with_both_versions_listens_for_both(model_of: Build) -> None:
    model = model_of(entry("a", "hosts: [a.x], ports: [{number: 80, name: http, protocol: HTTP}]"))

    (listener,) = planned(model.services, own=("10.0.0.1", "fd77::1")).listeners

    assert shown(listener) == "0.0.0.0+:::80 [http? 80]"


def test_allocated_addresses_are_for_proxies_whose_agents_answer_dns(model_of: Build) -> None:
    model = model_of(
        *(
            entry(
                name,
                (
                    f"hosts: [{name}.x], resolution: STATIC, "
                    f"ports: [{{number: 90, name: tcp, protocol: TCP}}]"
                ),
            )
            for name in "ab"
        )
    )
    naming = Naming(answers_dns=True, ip_versions=frozenset({4}))

    plan = planned(model.services, naming=naming)

    assert [each.bind[:8] for each in plan.listeners] == ["240.240.", "240.240."]
    assert not plan.conflicts


_PORTS = st.tuples(
    st.integers(1, 3), st.sampled_from(["http", "tcp", "tls", "https", "x", "mongo", "grpc-web"])
)
_ADDRESSES = st.sampled_from(["10.1.1.1", "10.1.1.2", "10.2.0.0/16", "10.2.3.4/16", "fd00::1"])


@given(
    st.lists(
        st.tuples(_PORTS, st.lists(_ADDRESSES, max_size=3, unique=True), st.booleans()),
        max_size=10,
    ),
    st.sampled_from([("10.0.0.1",), ("fd77::1",), ("10.0.0.1", "fd77::1")]),
)
def test_no_place_and_no_match_stands_twice_and_no_service_is_lost_in_silence(
    drawn: list[tuple[tuple[int, str], list[str], bool]], own: tuple[str, ...]
) -> None:
    services = [
        Service(
            host=f"S{number // 2}.x".lower() if is_shared else f"*.s{number}.x",
            namespace="a",
            name=f"s{number}",
            ports=(
                Port(
                    number=port,
                    name=name,
                    protocol=Protocol.from_port_name(name) or Protocol.AUTO,
                    target=port,
                ),
            ),
            addresses=tuple(addresses),
            resolution=Resolution.STATIC,
            external=False,
        )
        for number, ((port, name), addresses, is_shared) in enumerate(drawn)
    ]

    plan = planned(services, own=own)

    places = [
        (address, each.port) for each in plan.listeners for address in (each.bind, *each.further)
    ]
    assert len(places) == len(set(places))
    for listener in plan.listeners:
        assert listener.chains
        tcp = [each for each in listener.chains if isinstance(each, TcpChain)]
        matched = [
            (name, prefix)
            for each in tcp
            for name in each.server_names or ("",)
            for prefix in each.prefixes or ("",)
        ]
        assert len(matched) == len(set(matched))
        assert len(listener.chains) - len(tcp) <= 1
    reached = {
        cluster.name.split("|")[-1]
        for listener in plan.listeners
        for chain in listener.chains
        if isinstance(chain, TcpChain)
        for cluster in chain.target.clusters
    }
    reported = {each.host for each in plan.conflicts}
    for service in services:
        if not service.ports[0].protocol.is_http:
            assert service.host in reached | reported
