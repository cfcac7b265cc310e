"""Which outbound listeners a proxy gets, when services want the same places."""

from collections.abc import Callable, Iterable

from hypothesis import given
from hypothesis import strategies as st

from documents import entry
from envoy_config.plan._outbound import HttpOutbound, TcpOutbound, plan_outbound
from istio_config.kinds.protocol import Protocol
from istio_config.kinds.service_entry import Resolution
from mesh_model import EgressListener, MeshModel, Port, Service

Build = Callable[..., MeshModel]


def everything(services: Iterable[Service]) -> list[EgressListener]:
    return [EgressListener(services=tuple(services))]


def test_http_services_share_a_listener_and_the_older_service_keeps_a_place(
    model_of: Build,
) -> None:
    model = model_of(
        entry("a", "hosts: [a.x], ports: [{number: 80, name: http, protocol: HTTP}]"),
        entry(
            "b",
            (
                "hosts: [b.x], ports: [{number: 80, name: http, protocol: HTTP}, "
                "{number: 90, name: tcp, protocol: TCP}]"
            ),
        ),
        entry(
            "c",
            (
                "hosts: [c.x], ports: [{number: 80, name: tcp, protocol: TCP}, "
                "{number: 90, name: tcp-b, protocol: TCP}]"
            ),
        ),
        entry(
            "d",
            "hosts: [d.x], addresses: [10.1.1.1], ports: [{number: 80, name: tcp, protocol: TCP}]",
        ),
        entry("e", "hosts: [e.x], ports: [{number: 53, name: dns, protocol: UDP}]"),
        entry("f", "hosts: [f.x], ports: [{number: 22, name: tcp, protocol: TCP}]"),
    )

    plan = plan_outbound(
        everything(model.services), address="127.0.0.1", taken=frozenset({("127.0.0.1", 22)})
    )

    assert plan.listeners == (
        TcpOutbound(bind="10.1.1.1", port=80, cluster="outbound|80||d.x", is_virtual_address=True),
        TcpOutbound(
            bind="127.0.0.1", port=90, cluster="outbound|90||b.x", is_virtual_address=False
        ),
        HttpOutbound(bind="127.0.0.1", port=80, route="80"),
    )
    found = [(each.host, each.port) for each in plan.conflicts]
    assert found == [
        ("c.x", 80),
        ("c.x", 90),
        ("f.x", 22),
    ]


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.sampled_from(["http", "tcp"]), st.booleans()), max_size=12
    )
)
def test_no_two_listeners_share_a_place_and_every_service_has_one_or_a_conflict(
    drawn: list[tuple[int, str, bool]],
) -> None:
    services = [
        Service(
            host=f"s{n}.x",
            namespace="a",
            name=f"s{n}",
            ports=(Port(number=port, name=name, protocol=Protocol.declared(name), target=port),),
            addresses=(f"10.0.0.{n}",) if has_address else (),
            resolution=Resolution.STATIC,
            external=False,
        )
        for n, (port, name, has_address) in enumerate(drawn)
    ]

    plan = plan_outbound(everything(services), address="127.0.0.1")

    places = [(each.bind, each.port) for each in plan.listeners]
    assert len(places) == len(set(places))
    losers = {each.host for each in plan.conflicts}
    for service in services:
        served = any(
            isinstance(each, HttpOutbound)
            if service.ports[0].protocol.is_http
            else isinstance(each, TcpOutbound) and each.cluster.endswith(f"|{service.host}")
            for each in plan.listeners
            if each.port == service.ports[0].number
        )
        assert served != (service.host in losers)
