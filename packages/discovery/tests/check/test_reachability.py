"""What is configured and not reached is reported, with the place of the one that loses."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from istio_config.kinds.mesh_config import InterceptionMode
from mesh_discovery._check import check_configuration

Check = Callable[..., Sequence[str]]
TCP = "ports: [{number: 5432, name: tcp, protocol: TCP}]"
HTTP = "ports: [{number: 80, name: http, protocol: HTTP}]"


def entry(name: str, spec: str, *, namespace: str = "default") -> str:
    return (
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n"
        f"metadata: {{name: {name}, namespace: {namespace}}}\nspec:\n"
        + "".join(f"  {line}\n" for line in spec.split(", ~"))
    )


def static(host: str, ports: str, further: str = "resolution: STATIC") -> str:
    return f"hosts: [{host}], ~{ports}, ~{further}"


@pytest.fixture
def findings(config_dir: Path) -> Check:
    """Check some documents; return what is said of them, without the directory."""

    def check(**documents: str) -> Sequence[str]:
        for name, text in documents.items():
            (config_dir / f"{name}.yaml").write_text(text)
        checked = check_configuration(config_dir, interception=InterceptionMode.NONE)
        assert not checked.problems
        return [str(each).replace(f"{config_dir}/", "") for each in checked.unreachable]

    return check


def test_what_is_reached_is_not_reported(findings: Check) -> None:
    assert not findings(
        a=entry("a", static("a.test", HTTP)),
        b=entry("b", static("b.test", HTTP)),
        c=entry("c", static("c.test", TCP)),
        d=entry("d", static("d.test", TCP, "resolution: STATIC, ~addresses: [10.9.0.1]")),
        e=entry("e", static("e.test", TCP, "resolution: STATIC, ~addresses: [10.9.0.2]")),
        f=entry("f", static("f.test", TCP, 'resolution: STATIC, ~exportTo: ["~"]')),
    )


def test_a_host_of_two_services_is_reported_where_it_stands_again(findings: Check) -> None:
    assert findings(
        a=entry("a", static("web.test", HTTP)),
        b=entry(
            "b", static("b.test, Web.test", HTTP, "resolution: DNS, ~endpoints: [{address: c.d}]")
        ),
    ) == [
        (
            'b.yaml:5: spec.hosts[1]: "web.test" is served by ServiceEntry default/a (a.yaml:1) '
            "with resolution STATIC, which comes first: nothing reaches this one; give both the "
            "same resolution, or this one another host"
        )
    ]


def test_services_of_one_host_that_are_alike_are_one_service(findings: Check) -> None:
    assert not findings(
        a=entry("a", static("web.test", HTTP)), b=entry("b", static("Web.test", HTTP))
    )


def test_a_port_that_only_an_unlike_service_of_the_host_has_is_reported(findings: Check) -> None:
    second = static("web.test", HTTP.replace("80", "81"), "resolution: STATIC, ~exportTo: [.]")
    (problem,) = findings(a=entry("a", static("web.test", HTTP)), b=entry("b", second))

    assert problem == (
        'b.yaml:6: spec.ports[0]: "web.test" is served by ServiceEntry default/a (a.yaml:1), which '
        "comes first and has no port 81: it gets none from this one, whose labels, "
        "workloadSelector or exportTo are others"
    )


def test_a_kubernetes_service_comes_before_a_service_entry_of_its_host(findings: Check) -> None:
    service = (
        "apiVersion: v1\nkind: Service\nmetadata: {name: web, creationTimestamp: '2026-01-02'}\n"
        "spec: {clusterIP: 10.9.0.1, ports: [{port: 80, name: http}]}\n"
    )
    (problem,) = findings(a=entry("a", static("web.default.svc.cluster.local", HTTP)), b=service)

    assert problem.startswith(
        'a.yaml:5: spec.hosts[0]: "web.default.svc.cluster.local" is served by Service default/web '
        "(b.yaml:1): a Kubernetes service comes before a ServiceEntry of its host"
    )


def test_a_host_of_two_namespaces_is_reported_if_a_third_sees_both(findings: Check) -> None:
    one = entry("a", static("web.test", HTTP), namespace="one")
    (problem,) = findings(a=one, b=entry("b", static("web.test", HTTP), namespace="two"))

    assert problem.startswith(
        'b.yaml:5: spec.hosts[0]: "web.test" is served by ServiceEntry one/a (a.yaml:1), too'
    )
    own = static("web.test", HTTP, 'resolution: STATIC, ~exportTo: ["."]')
    assert not findings(a=one, b=entry("b", own, namespace="two"))


@pytest.mark.parametrize(
    ("first", "second"), [(TCP, TCP), (HTTP, TCP.replace("5432", "80")), (TCP, HTTP)]
)
def test_a_port_of_two_services_is_reported_unless_both_are_http(
    first: str, second: str, findings: Check
) -> None:
    second = second.replace("80", "5432") if "5432" in first else second
    (problem,) = findings(
        a=entry("a", static("a.test", first)), b=entry("b", static("b.test", second))
    )

    number = 5432 if "5432" in first else 80
    assert problem.startswith(
        f"b.yaml:6: spec.ports[0]: port {number} belongs to ServiceEntry default/a (a.yaml:1), "
        "which comes first"
    )


def test_a_port_of_services_that_no_one_sees_together_is_not_reported(findings: Check) -> None:
    private = 'resolution: STATIC, ~exportTo: ["."]'

    assert not findings(
        a=entry("a", static("a.test", TCP, private), namespace="one"),
        b=entry("b", static("b.test", TCP, private), namespace="two"),
    )
    assert len(findings(c=entry("c", static("c.test", TCP), namespace="three"))) == 1


def test_a_virtual_address_of_two_services_is_reported(findings: Check) -> None:
    virtual = "resolution: STATIC, ~addresses: [10.9.0.1]"

    (problem,) = findings(
        a=entry("a", static("a.test", TCP, virtual)), b=entry("b", static("b.test", TCP, virtual))
    )

    assert "10.9.0.1 port 5432 belongs to ServiceEntry default/a" in problem


def test_the_http_proxys_port_is_not_a_services(findings: Check) -> None:
    (problem,) = findings(
        mesh="apiVersion: mesh.istio.io/v1alpha1\nkind: MeshConfig\nspec: {proxyHttpPort: 5432}\n",
        a=entry("a", static("a.test", TCP)),
    )

    assert problem.startswith("a.yaml:6: spec.ports[0]: 5432 is mesh config's proxyHttpPort")


def test_resolution_none_is_reported_since_nothing_is_intercepted(findings: Check) -> None:
    (given, left_out) = findings(
        a=entry("a", static("a.test", HTTP, "resolution: NONE")),
        b=entry("b", static("b.test", HTTP, "location: MESH_EXTERNAL")),
    )

    assert given.startswith("a.yaml:7: spec.resolution: NONE leads to where a connection was going")
    assert left_out.startswith("b.yaml:4: spec.resolution: NONE leads to")


def test_udp_ports_are_reported(findings: Check) -> None:
    ports = (
        "ports: [{number: 80, name: http, protocol: HTTP}, "
        "{number: 53, name: udp-dns, protocol: UDP}]"
    )

    assert findings(a=entry("a", static("a.test", ports))) == [
        "a.yaml:6: spec.ports[1]: UDP is not carried: nothing listens on 53"
    ]


def test_a_virtual_address_that_several_proxies_of_this_machine_want_is_reported(
    findings: Check,
) -> None:
    def workload(name: str, address: str) -> str:
        return entry(
            name,
            static(f"{name}.test", HTTP)
            + f", ~endpoints: [{{address: {address}, serviceAccount: {name}}}]",
        )

    one, two = workload("one", "127.1.1.1"), workload("two", "127.1.2.1")
    db = entry("db", static("db.test", TCP, "resolution: STATIC, ~addresses: [10.9.0.1]"))

    assert not findings(one=one, db=db)
    (problem,) = findings(two=two)
    assert problem.startswith(
        "db.yaml:8: spec.addresses: 10.9.0.1 port 5432 is wanted by 2 proxies of one machine "
        "(127.1.1.1, 127.1.2.1), and only one of them can listen there"
    )


ALIAS = """\
apiVersion: v1
kind: Service
metadata: {name: old, namespace: default}
spec: {type: ExternalName, externalName: web.test}
"""
TO_ALIAS = """\
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: vs, namespace: default}
spec:
  hosts: [shop.example]
  http: [{route: [{destination: {host: old, subset: v1, port: {number: 80}}}]}]
"""
RULE = """\
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: {name}, namespace: default}}
spec: {{host: {host}, subsets: [{{name: v1, labels: {{app: web}}}}]}}
"""
LABELLED = "resolution: STATIC, ~endpoints: [{address: 10.0.0.1, labels: {app: web}}]"


def test_a_route_to_an_alias_is_one_to_its_target_and_a_rule_for_it_has_no_effect(
    findings: Check,
) -> None:
    service = entry("web", static("web.test", HTTP, LABELLED))

    assert not findings(
        web=service, alias=ALIAS, rule=RULE.format(name="r", host="web.test"), vs=TO_ALIAS
    )
    assert findings(rule=RULE.format(name="r", host="old")) == [
        (
            "rule.yaml:4: spec.host: old.default.svc.cluster.local stands for web.test, as a "
            "service of type ExternalName does: it has no effect; name that host"
        ),
        (
            "vs.yaml:6: spec.http[0].route[0].destination.subset: no DestinationRule for "
            'old.default.svc.cluster.local has the subset "v1": what is sent there is answered '
            "with 503, or closed"
        ),
    ]
