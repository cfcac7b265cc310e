"""From configuration to a mesh: its services and workloads."""

from collections.abc import Callable

import pytest

from documents import WEB, entry, workload
from istio_config.kinds.protocol import Protocol
from mesh_model import MeshModel

Build = Callable[..., MeshModel]


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
    ("fields", "wanted"),
    [
        ("name: x, protocol: http", Protocol.HTTP),
        ("name: http, protocol: GRPC", Protocol.GRPC),
        ("name: http", Protocol.AUTO),
        ("name: grpc-api", Protocol.AUTO),
        ("name: udp", Protocol.AUTO),
        ("name: admin", Protocol.AUTO),
    ],
)
def test_a_port_of_a_service_entry_has_the_protocol_that_it_declares_whatever_its_name(
    model_of: Build, fields: str, wanted: Protocol
) -> None:
    model = model_of(entry("s", f"hosts: [s.x], ports: [{{number: 80, {fields}}}]"))

    assert model.services[0].ports[0].protocol is wanted


def test_a_mesh_with_other_rules_is_not_equal(model_of: Build) -> None:
    rule = """\
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: default}
spec: {hosts: [web], http: [{directResponse: {status: 418}}]}
"""
    assert model_of(entry("web", WEB)) != model_of(entry("web", WEB), rule)
