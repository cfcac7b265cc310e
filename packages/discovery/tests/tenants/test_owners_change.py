"""What is pushed of a strict mesh when a host is given to a namespace, and taken from it."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from documents import document
from mesh_discovery import ConfigLoader
from mesh_findings import review
from mesh_model import Facts, build_model
from pushed_meshes import StrictMesh, router, service, sidecar

GIVEN = """\
apiVersion: v1
kind: Namespace
metadata:
  name: shared
  annotations: {{mesh-discovery/hosts: "{hosts}", mesh-discovery/addresses: "{addresses}"}}
"""
OUTSIDE = "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n"
BANK = (
    f"{OUTSIDE}metadata: {{name: bank, namespace: shared}}\nspec: {{hosts: [api.bank.example], "
    "resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}\n"
)
RANGE = (
    f"{OUTSIDE}metadata: {{name: range, namespace: shared}}\n"
    "spec: {hosts: [db.shared.svc.cluster.local], addresses: [10.1.0.9], resolution: STATIC, "
    "ports: [{number: 5432, name: tcp, protocol: TCP}], endpoints: [{address: 10.0.0.9}]}\n"
)
ROUTES = document(
    "VirtualService",
    "routes",
    "{hosts: [api.bank.example], http: [{fault: {abort: {percentage: {value: 100}, "
    "httpStatus: 418}}, route: [{destination: {host: api.bank.example}}]}]}",
    namespace="shared",
)
CLUSTER = "outbound|80||api.bank.example"
DB = "outbound|5432||db.shared.svc.cluster.local"


def test_a_host_that_is_given_to_a_namespace_is_seen_by_all_and_taken_again(
    tmp_path: Path,
) -> None:
    """The harness compares what proxies have with what a new control plane would give them."""
    mesh = StrictMesh(
        tmp_path,
        web=service("web", "10.1.0.1"),
        bank=BANK,
        db=RANGE,
        routes=ROUTES,
    )
    clients = [sidecar("a"), sidecar("a", mode="NONE", OUTBOUND_BIND_ADDRESS="127.0.0.3")]
    own = sidecar("shared")
    mesh.connect(own, *clients)
    assert {CLUSTER, DB} <= mesh.clusters(own)
    assert not any({CLUSTER, DB} & mesh.clusters(each) for each in clients)

    mesh.change(given=GIVEN.format(hosts="*.bank.example", addresses="10.1.0.0/16"))
    assert all({CLUSTER, DB} <= mesh.clusters(each) for each in clients)

    mesh.change(given=GIVEN.format(hosts="other.example", addresses="10.1.0.9"))
    assert all(mesh.clusters(each) >= {DB} for each in clients)
    assert not any(CLUSTER in mesh.clusters(each) for each in clients)

    mesh.change(given=None)
    assert not any({CLUSTER, DB} & mesh.clusters(each) for each in clients)
    assert {CLUSTER, DB} <= mesh.clusters(own)


HOSTS = ("api.bank.example", "*.bank.example", "web.a.svc.cluster.local", "x.b.svc.cluster.local")
namespaces, hosts = st.sampled_from(["a", "b"]), st.sampled_from(HOSTS)
exports = st.sampled_from(["", ', exportTo: ["*"]', ', exportTo: ["."]', ", exportTo: [b]"])


def _entry(namespace: str, host: str, address: str, export: str) -> tuple[str, str]:
    spec = (
        f"{{hosts: ['{host}'], resolution: STATIC, endpoints: [{{address: 10.0.0.9}}], "
        "ports: [{number: 80, name: http, protocol: HTTP}, "
        f"{{number: 5432, name: tcp, protocol: TCP}}]{address}{export}}}"
    )
    return f"entry_{namespace}", document("ServiceEntry", "e", spec, namespace=namespace)


def _routes(namespace: str, host: str, gateways: str, export: str) -> tuple[str, str]:
    spec = (
        f"{{hosts: ['{host}'], {gateways}http: [{{route: [{{destination: "
        f"{{host: web.a.svc.cluster.local}}}}]}}]{export}}}"
    )
    return f"routes_{namespace}", document("VirtualService", "r", spec, namespace=namespace)


def _given(namespace: str, host: str, addresses: str) -> tuple[str, str]:
    text = GIVEN.format(hosts=host, addresses=addresses).replace(
        "name: shared", f"name: {namespace}"
    )
    return f"given_{namespace}", text


edits = st.one_of(
    st.builds(_entry, namespaces, hosts, st.sampled_from(["", ", addresses: [10.1.0.9]"]), exports),
    st.builds(
        _routes,
        namespaces,
        hosts,
        st.sampled_from(["", "gateways: [a/g], ", "gateways: [mesh, a/g], "]),
        exports,
    ),
    st.builds(_given, namespaces, hosts, st.sampled_from(["10.1.0.0/16", "10.2.0.1"])),
    st.builds(
        lambda kind, namespace: (f"{kind}_{namespace}", None),
        st.sampled_from(["entry", "routes", "given"]),
        namespaces,
    ),
)
GATEWAY = document(
    "Gateway",
    "g",
    "{selector: {istio: g}, servers: [{port: {number: 80, name: http, protocol: HTTP}, "
    "hosts: [b/web.a.svc.cluster.local, '*.bank.example', '*']}]}",
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(edits, min_size=1, max_size=8))
@example(
    [
        _given("a", HOSTS[0], "10.1.0.0/16"),
        _given("b", HOSTS[0], "10.1.0.0/16"),
        _entry("a", HOSTS[0], "", ""),
        _entry("b", HOSTS[0], ", addresses: [10.1.0.9]", ""),
        _given("b", HOSTS[0], "10.2.0.1"),
    ]
)
def test_any_edits_of_a_strict_mesh_lead_to_what_a_fresh_start_has(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, str | None]]
) -> None:
    directory: Path = tmp_path_factory.mktemp("mesh")
    mesh = StrictMesh(directory, web=service("web", "10.1.0.1"), gateway=GATEWAY)
    mesh.connect(
        sidecar("a"),
        sidecar("b"),
        sidecar("c", mode="NONE", OUTBOUND_BIND_ADDRESS="127.0.0.3"),
        router("a", labels={"istio": "g"}),
        router("b", labels={"istio": "g"}),
    )
    findings = review(mesh.model)
    for name, text in changes:
        if text is None and not (directory / f"{name}.yaml").exists():
            continue
        mesh.change(**{name: text})
        findings = review(mesh.model, findings)
        fresh = review(
            build_model(
                Facts(snapshot=ConfigLoader(directory).load().snapshot), strict_namespaces=True
            )
        )
        assert fresh.model.services == mesh.model.services
        assert findings.problems == fresh.problems
        assert findings.warnings == fresh.warnings
