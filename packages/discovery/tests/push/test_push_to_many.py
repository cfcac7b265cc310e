"""Of 1 000 proxies of ten shapes, how many are sent each kind of change, and of which types."""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from documents import document
from envoy_config import Proxy
from pushed_meshes import Mesh, egress, route, router, service, sidecar

EACH = 100
WEB, DB = "web.a.svc.cluster.local", "db.a.svc.cluster.local"
SHAPES: Mapping[str, Callable[[], Proxy]] = {
    "a": lambda: sidecar("a"),
    "a, no interception": lambda: sidecar("a", mode="NONE"),
    "a, imports web": lambda: sidecar("a", labels={"imports": "web"}),
    "a, imports db": lambda: sidecar("a", labels={"imports": "db"}),
    "a, source of routes": lambda: sidecar("a", labels={"app": "source"}),
    "b": lambda: sidecar("b"),
    "b, no interception": lambda: sidecar("b", mode="NONE"),
    "router of a": lambda: router("a", labels={"istio": "gw"}),
    "router of b": lambda: router("b", labels={"istio": "gw"}),
    "router without gateway": lambda: router("b"),
}
ALL_SIDECARS = {"a", "a, no interception", "a, source of routes", "b", "b, no interception"}
OF_A = {"a", "a, no interception", "a, source of routes"}
ROUTERS = {"router of a", "router of b", "router without gateway"}


def rule(host: str, pool: int) -> str:
    policy = f"{{connectionPool: {{http: {{http2MaxRequests: {pool}}}}}}}"
    return document("DestinationRule", "rule", f"{{host: {host}, trafficPolicy: {policy}}}")


def imports(host: str) -> str:
    name = host.partition(".")[0]
    return egress(f"a/{host}", selector=f"imports: {name}").replace(
        "name: imports", f"name: {name}"
    )


def gateway(port: int) -> str:
    opened = f"port: {{number: {port}, name: http, protocol: HTTP}}"
    return document(
        "Gateway", "gw", f"{{selector: {{istio: gw}}, servers: [{{{opened}, hosts: ['*']}}]}}"
    )


def policy(mode: str, namespace: str = "a") -> str:
    return (
        "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\n"
        f"metadata: {{name: default, namespace: {namespace}}}\nspec: {{mtls: {{mode: {mode}}}}}\n"
    )


def for_workloads(
    kind: str, spec: str, *, namespace: str = "a", group: str = "security.istio.io/v1"
) -> str:
    return (
        f"apiVersion: {group}\nkind: {kind}\n"
        f"metadata: {{name: of-workloads, namespace: {namespace}}}\nspec: {spec}\n"
    )


DENY = "action: DENY, rules: [{}]"
WORKLOADS_OF_SOURCE = "workloadSelector: {labels: {app: source}}"
OF_SOURCE = "selector: {matchLabels: {app: source}}"
TOKENS = "jwtRules: [{issuer: 'https://i.example', jwksUri: 'https://i.example/keys'}]"
LOGS = "accessLogging: [{providers: [{name: envoy}]}]"
NETWORKING = "networking.istio.io/v1alpha3"


def patch(apply_to: str, value: str, more: str = "") -> str:
    change = f"{{applyTo: {apply_to}, patch: {{operation: MERGE, value: {value}}}}}"
    return for_workloads("EnvoyFilter", f"{{{more}configPatches: [{change}]}}", group=NETWORKING)


BY_SOURCE = (
    f"{{hosts: [{DB}], http: [{{match: [{{sourceLabels: {{app: source}}}}], timeout: 1s, "
    f"route: [{{destination: {{host: {DB}}}}}]}}]}}"
)


@pytest.fixture(scope="module")
def proxies() -> dict[str, list[Proxy]]:
    return {shape: [make() for _ in range(EACH)] for shape, make in SHAPES.items()}


@pytest.fixture
def mesh(tmp_path: Path, proxies: dict[str, list[Proxy]]) -> Mesh:
    mesh = Mesh(
        tmp_path,
        web=service("web", "10.1.0.1"),
        db=service("db", "10.1.0.2"),
        own=service("own", "10.1.0.3").replace("spec: {", "spec: {exportTo: ['.'], "),
        web_imports=imports(WEB),
        db_imports=imports(DB),
        routes=route(WEB, WEB),
        rule=rule(WEB, 5),
        gateway=gateway(8080),
    )
    mesh.connect(*(each for of_shape in proxies.values() for each in of_shape))
    return mesh


IMPORT_WEB, IMPORT_DB = {"a, imports web"}, {"a, imports db"}
ENFORCING_OF_A = {"a", "a, source of routes", "router of a"} | IMPORT_WEB | IMPORT_DB
"""Proxies without interception serve nothing here, and have no inbound listeners."""
ENFORCING = ENFORCING_OF_A | {"b", "router of b"}
CHANGES = {
    "endpoint of web": (
        {"web": service("web", "10.1.0.1", "10.1.0.9")},
        {shape: {"EDS"} for shape in ALL_SIDECARS | IMPORT_WEB | ROUTERS},
    ),
    "endpoint of a service of a alone": (
        {"own": service("own", "10.1.0.4").replace("spec: {", "spec: {exportTo: ['.'], ")},
        {shape: {"EDS"} for shape in OF_A | {"router of a"}},
    ),
    "a service of a alone is added": (
        {"new": service("new", "10.1.0.5").replace("spec: {", "spec: {exportTo: ['.'], ")},
        {
            **{shape: {"CDS", "EDS", "RDS"} for shape in OF_A},
            "router of a": {"CDS", "EDS"},
        },
    ),
    "VirtualService of web": (
        {"routes": route(WEB, WEB, more="timeout: 5s, ")},
        {shape: {"RDS"} for shape in ALL_SIDECARS | IMPORT_WEB},
    ),
    "VirtualService by labels of the source": (
        {"more": document("VirtualService", "more", BY_SOURCE)},
        {"a, source of routes": {"RDS"}},
    ),
    "VirtualService of a gateway": (
        {
            "more": route("x.example", WEB, name="more", more="timeout: 5s, ").replace(
                "hosts:", "gateways: [gw], hosts:"
            )
        },
        {"router of a": {"RDS"}, "router of b": {"RDS"}},
    ),
    "DestinationRule of web": (
        {"rule": rule(WEB, 6)},
        {shape: {"CDS"} for shape in ALL_SIDECARS | IMPORT_WEB | ROUTERS},
    ),
    "Sidecar of those that import db": (
        {"db_imports": egress(f"a/{WEB}", name="db", selector="imports: db")},
        {"a, imports db": {"CDS", "EDS", "RDS"}},
    ),
    "Gateway": (
        {"gateway": gateway(8081)},
        {"router of a": {"LDS", "RDS"}, "router of b": {"LDS", "RDS"}},
    ),
    "PeerAuthentication of a": (
        {"policy": policy("DISABLE")},
        {
            **{shape: {"CDS", "EDS"} for shape in {"b", "b, no interception"} | ROUTERS},
            **{shape: {"CDS", "EDS", "LDS"} for shape in ("a", "a, source of routes")},
            **{shape: {"CDS", "EDS", "LDS"} for shape in IMPORT_WEB | IMPORT_DB},
            "a, no interception": {"CDS", "EDS"},
        },
    ),
    "AuthorizationPolicy of a": (
        {"more": for_workloads("AuthorizationPolicy", f"{{{DENY}}}")},
        {shape: {"LDS"} for shape in ENFORCING_OF_A},
    ),
    "AuthorizationPolicy by labels": (
        {"more": for_workloads("AuthorizationPolicy", f"{{{OF_SOURCE}, {DENY}}}")},
        {"a, source of routes": {"LDS"}},
    ),
    "AuthorizationPolicy of the mesh": (
        {"more": for_workloads("AuthorizationPolicy", f"{{{DENY}}}", namespace="istio-system")},
        {shape: {"LDS"} for shape in ENFORCING},
    ),
    "RequestAuthentication of b": (
        {"more": for_workloads("RequestAuthentication", f"{{{TOKENS}}}", namespace="b")},
        {shape: {"LDS"} for shape in ("b", "router of b")},
    ),
    "Telemetry by labels": (
        {
            "more": for_workloads(
                "Telemetry", f"{{{OF_SOURCE}, {LOGS}}}", group="telemetry.istio.io/v1"
            )
        },
        {"a, source of routes": {"LDS"}},
    ),
    "EnvoyFilter of clusters, by labels": (
        {"more": patch("CLUSTER", "{alt_stat_name: x}", f"{WORKLOADS_OF_SOURCE}, ")},
        {"a, source of routes": {"CDS"}},
    ),
    "EnvoyFilter of routes": (
        {"more": patch("VIRTUAL_HOST", "{include_request_attempt_count: false}")},
        {shape: {"RDS"} for shape in OF_A | IMPORT_WEB | IMPORT_DB | {"router of a"}},
    ),
    "a file that says the same in other words": (
        {"routes": "# a remark\n" + route(WEB, WEB)},
        {},
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_proxies_to_which_it_makes_a_difference_are_pushed_to(
    change: str, mesh: Mesh, proxies: dict[str, list[Proxy]]
) -> None:
    documents, wanted = CHANGES[change]
    found = mesh.change(**documents)
    pushed = {
        shape: Counter(frozenset(found.sent_to(each)) for each in of_shape)
        for shape, of_shape in proxies.items()
    }
    assert pushed == {shape: Counter({frozenset(wanted.get(shape, ())): EACH}) for shape in SHAPES}
