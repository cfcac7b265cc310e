"""From configuration to a mesh: services, workloads, policies, names, and what a change means."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_discovery.config.kinds._peer_authentication import (
    MatchLabels,
    MutualTls,
    MutualTlsMode,
    PeerAuthenticationSpec,
)
from mesh_discovery.config.kinds._protocol import Protocol
from mesh_discovery.model._model import MeshModel
from mesh_discovery.model._peer_authentication import PeerPolicies, Policy
from mesh_discovery.plan._names import short_names
from mesh_discovery.plan._outbound import HttpOutbound, TcpOutbound, plan_outbound
from mesh_discovery.push._changes import difference
from xds_server import ConfigKey

Build = Callable[..., MeshModel]


def entry(name: str, spec: str, *, namespace: str = "default", created: str = "") -> str:
    stamp = f", creationTimestamp: '{created}'" if created else ""
    return (
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n"
        f"metadata: {{name: {name}, namespace: {namespace}{stamp}}}\nspec: {{{spec}}}\n"
    )


def workload(name: str, spec: str, *, namespace: str = "default") -> str:
    return (
        "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\n"
        f"metadata: {{name: {name}, namespace: {namespace}}}\nspec: {{{spec}}}\n"
    )


WEB = "hosts: [web.a], resolution: STATIC, ports: [{number: 80, name: http, targetPort: 8080}]"


def test_workloads_are_selected_by_label_in_their_own_namespace(model_of: Build) -> None:
    model = model_of(
        entry("web", WEB + ", workloadSelector: {labels: {app: web}}"),
        workload("one", "address: 10.0.0.1, labels: {app: web, v: '1'}, serviceAccount: web"),
        workload("two", "address: 10.0.0.2, labels: {app: web}, ports: {http: 9090}"),
        workload("other", "address: 10.0.0.3, labels: {app: db}"),
        workload("elsewhere", "address: 10.0.0.4, labels: {app: web}", namespace="x"),
    )

    (service,) = model.services
    (port,) = service.ports

    assert [(e.address, e.port_for(port), e.speaks_mutual_tls) for e in service.endpoints] == [
        ("10.0.0.1", 8080, True),
        ("10.0.0.2", 9090, False),
    ]
    assert service.service_accounts == (("default", "web"),)


def test_a_label_overrides_what_the_service_account_says_of_mutual_tls(model_of: Build) -> None:
    label = "labels: {security.istio.io/tlsMode: %s}"
    model = model_of(
        entry(
            "web",
            WEB
            + ", endpoints: [{address: 10.0.0.1, serviceAccount: web, "
            + label % "disabled"
            + "}, {address: 10.0.0.2, "
            + label % "istio"
            + "}]",
        )
    )

    assert [e.speaks_mutual_tls for e in model.services[0].endpoints] == [False, True]


def test_a_service_by_dns_without_endpoints_is_its_own(model_of: Build) -> None:
    model = model_of(entry("a", "hosts: [api.example.com], resolution: DNS"))

    assert [e.address for e in model.services[0].endpoints] == ["api.example.com"]


def test_the_older_of_two_services_comes_first_and_undated_ones_last(model_of: Build) -> None:
    model = model_of(
        entry("b", "hosts: [b.x]"),
        entry("c", "hosts: [c.x]", created="2026-01-02T00:00:00Z"),
        entry("d", "hosts: [d.x]", created="2026-01-01T00:00:00Z"),
        entry("a", "hosts: [a.x]"),
    )

    assert [service.name for service in model.services] == ["d", "c", "a", "b"]


@pytest.mark.parametrize(
    ("export", "seen"),
    [("['*']", "ab"), ("[.]", "a"), ("['~']", ""), ("[b]", "b"), ("[]", "ab")],
)
def test_a_service_is_visible_where_it_is_exported_to(
    export: str, seen: str, model_of: Build
) -> None:
    model = model_of(entry("s", f"hosts: [s.x], exportTo: {export}", namespace="a"))

    assert "".join(n for n in "ab" if model.services[0].visible_in(n)) == seen


@pytest.mark.parametrize(
    ("protocol", "name", "wanted"),
    [
        ("http", "x", Protocol.HTTP),
        ("GRPC", "http", Protocol.GRPC),
        ("", "grpc-api", Protocol.GRPC),
        ("", "http", Protocol.HTTP),
        ("", "http2-x", Protocol.HTTP2),
        ("", "grpc-web-x", Protocol.GRPC_WEB),
        ("", "admin", Protocol.TCP),
    ],
)
def test_a_ports_protocol_is_given_or_told_by_its_name(
    protocol: str, name: str, wanted: Protocol
) -> None:
    assert Protocol.of_port(protocol, name) is wanted


@pytest.mark.parametrize(
    ("host", "domain", "wanted"),
    [
        ("web.a.svc.cluster.local", "a.svc.cluster.local", ("web", "web.a", "web.a.svc")),
        ("web.b.svc.cluster.local", "a.svc.cluster.local", ("web.b", "web.b.svc")),
        ("web.a.mesh", "a.mesh", ("web", "web.a")),
        ("web.example.com", "a.svc.cluster.local", ()),
        ("*.a.svc.cluster.local", "a.svc.cluster.local", ()),
        ("web.a.svc.cluster.local", "a", ()),
    ],
)
def test_short_names_are_those_of_the_proxys_own_domain(
    host: str, domain: str, wanted: tuple[str, ...]
) -> None:
    assert short_names(host, domain) == wanted


def policy(namespace: str, mode: str, labels: dict[str, str] | None = None, **ports: str) -> Policy:
    return Policy(
        namespace=namespace,
        spec=PeerAuthenticationSpec(
            selector=MatchLabels(match_labels=labels) if labels else None,
            mtls=MutualTls(mode=MutualTlsMode(mode)),
            port_level_mtls={
                key.removeprefix("p"): MutualTls(mode=MutualTlsMode(value))
                for key, value in ports.items()
            },
        ),
    )


@pytest.mark.parametrize(
    ("policies", "wanted"),
    [
        ([], "PERMISSIVE"),
        ([policy("root", "STRICT")], "STRICT"),
        ([policy("root", "STRICT"), policy("ns", "DISABLE")], "DISABLE"),
        ([policy("root", "STRICT"), policy("ns", "UNSET")], "STRICT"),
        ([policy("ns", "STRICT"), policy("ns", "DISABLE")], "STRICT"),
        ([policy("other", "STRICT")], "PERMISSIVE"),
        ([policy("ns", "STRICT"), policy("ns", "DISABLE", {"app": "web"})], "DISABLE"),
        ([policy("ns", "STRICT"), policy("ns", "DISABLE", {"app": "db"})], "STRICT"),
        ([policy("ns", "DISABLE", {"app": "web"}, p80="STRICT")], "STRICT"),
        ([policy("ns", "DISABLE", {"app": "web"}, p81="STRICT")], "DISABLE"),
        ([policy("ns", "STRICT"), policy("ns", "UNSET", {"app": "web"}, p80="UNSET")], "STRICT"),
        ([policy("root", "DISABLE", {"app": "web"})], "PERMISSIVE"),
    ],
)
def test_the_nearest_and_oldest_policy_decides(policies: list[Policy], wanted: str) -> None:
    all_policies = PeerPolicies(root_namespace="root", policies=tuple(policies))

    assert all_policies.mode("ns", {"app": "web", "v": "1"}, 80) == wanted


def test_an_endpoint_more_is_no_full_push_and_names_service_and_workload(model_of: Build) -> None:
    one = WEB + ", endpoints: [{address: 10.0.0.1}"
    old = model_of(entry("web", one + "]"))
    new = model_of(entry("web", one + ", {address: 10.0.0.2}]"))

    request = difference(old, new)

    assert request is not None
    assert request.incremental
    assert request.configs_updated == {
        ConfigKey("ServiceEntry", "web.a", "default"),
        ConfigKey("WorkloadEntry", "10.0.0.2", "default"),
    }


def test_another_service_account_is_a_full_push(model_of: Build) -> None:
    endpoint = WEB + ", endpoints: [{address: 10.0.0.1, serviceAccount: %s}]"

    request = difference(
        model_of(entry("web", endpoint % "a")), model_of(entry("web", endpoint % "b"))
    )

    assert request is not None
    assert not request.incremental


def test_another_mesh_config_may_change_everything(model_of: Build) -> None:
    mesh = "apiVersion: mesh.istio.io/v1alpha1\nkind: MeshConfig\nspec: {connectTimeout: 1s}\n"

    request = difference(model_of(entry("web", WEB)), model_of(entry("web", WEB), mesh))

    assert request is not None
    assert not request.incremental
    assert not request.configs_updated


def test_a_workload_that_no_service_selects_changes_nothing(model_of: Build) -> None:
    old = model_of(entry("web", WEB))

    assert difference(old, model_of(entry("web", WEB), workload("w", "address: 10.0.0.9"))) is None


def test_http_services_share_a_listener_and_the_older_service_keeps_a_place(
    model_of: Build,
) -> None:
    model = model_of(
        entry("a", "hosts: [a.x], ports: [{number: 80, name: http}]"),
        entry("b", "hosts: [b.x], ports: [{number: 80, name: http}, {number: 90, name: tcp}]"),
        entry("c", "hosts: [c.x], ports: [{number: 80, name: tcp}, {number: 90, name: tcp-b}]"),
        entry("d", "hosts: [d.x], addresses: [10.1.1.1], ports: [{number: 80, name: tcp}]"),
        entry("e", "hosts: [e.x], ports: [{number: 53, name: dns, protocol: UDP}]"),
        entry("f", "hosts: [f.x], ports: [{number: 22, name: tcp}]"),
    )

    listeners, conflicts = plan_outbound(
        model.services, address="127.0.0.1", taken=frozenset({("127.0.0.1", 22)})
    )

    assert listeners == (
        TcpOutbound(bind="10.1.1.1", port=80, cluster="outbound|80||d.x", is_virtual_address=True),
        TcpOutbound(
            bind="127.0.0.1", port=90, cluster="outbound|90||b.x", is_virtual_address=False
        ),
        HttpOutbound(bind="127.0.0.1", port=80, route="80"),
    )
    assert [(each.host, each.port) for each in conflicts] == [("c.x", 80), ("c.x", 90), ("f.x", 22)]


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.sampled_from(["http", "tcp"]), st.booleans()), max_size=12
    )
)
def test_no_two_listeners_share_a_place_and_every_service_has_one_or_a_conflict(
    drawn: list[tuple[int, str, bool]],
) -> None:
    from mesh_discovery.config.kinds._service_entry import Resolution
    from mesh_discovery.model._services import Port, Service

    services = [
        Service(
            host=f"s{n}.x",
            namespace="a",
            name=f"s{n}",
            ports=(Port(number=port, name=name, protocol=Protocol.of_port("", name), target=port),),
            addresses=(f"10.0.0.{n}",) if has_address else (),
            resolution=Resolution.STATIC,
            external=False,
        )
        for n, (port, name, has_address) in enumerate(drawn)
    ]

    listeners, conflicts = plan_outbound(services, address="127.0.0.1")

    places = [(each.bind, each.port) for each in listeners]
    assert len(places) == len(set(places))
    losers = {each.host for each in conflicts}
    for service in services:
        served = any(
            isinstance(each, HttpOutbound)
            if service.ports[0].protocol.is_http
            else isinstance(each, TcpOutbound) and each.cluster.endswith(f"|{service.host}")
            for each in listeners
            if each.port == service.ports[0].number
        )
        assert served != (service.host in losers)
