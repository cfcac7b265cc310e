"""The TLS of a cluster, by the rule, the service, the endpoints and the client."""

from collections.abc import Callable

import pytest

from destination_rules import policy
from documents import entry, peer_authentication
from envoy_config.plan._client import Client, ClientFiles
from envoy_config.plan._discovery import Discovery, discovery
from envoy_config.plan._traffic_policy import effective_policy
from envoy_config.plan._upstream_tls import TlsKind, upstream_tls
from headless_services import HOST as HEADLESS
from headless_services import Pod, headless_service
from mesh_model import MeshModel

Build = Callable[..., MeshModel]

SIDECAR, REDIRECTED, ROUTER = Client(), Client(redirected=True), Client(is_sidecar=False)
WITH_FILES = Client(files=ClientFiles("/c", "/k", "/r"))
PORTS = "ports: [{number: 80, name: http, protocol: HTTP}]"
HOST = "hosts: [s.b.svc.cluster.local]"
INSIDE = entry(
    "s",
    f"{HOST}, location: MESH_INTERNAL, resolution: STATIC, {PORTS}, "
    "endpoints: [{address: 10.0.0.1, serviceAccount: s}]",
    namespace="b",
)
OUTSIDE = entry("s", f"{HOST}, resolution: DNS, {PORTS}", namespace="b")
ANYWHERE = entry("s", f"{HOST}, location: MESH_INTERNAL, {PORTS}", namespace="b")
NO_AUTO = "apiVersion: mesh.istio.io/v1alpha1\nkind: MeshConfig\nspec: {enableAutoMtls: false}\n"
FILES = "clientCertificate: /c, privateKey: /k"
PODS = headless_service((Pod("h-0", "10.0.0.1"), Pod("h-1", "10.0.0.2")))
MIXED = headless_service((Pod("h-0", "10.0.0.1"), Pod("h-1", "10.0.0.2", has_sidecar=False)))
BARE = headless_service((Pod("h-0", "10.0.0.1", has_sidecar=False),))
NONE_RUN = headless_service(())
ONE_WORKLOAD = """\
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: one, namespace: b}
spec: {selector: {matchLabels: {pod: one}}, mtls: {mode: DISABLE}}
"""
ONE_OF_TWO = headless_service((Pod("h-0", "10.0.0.1"), Pod("h-1", "10.0.0.2", labels="pod: one")))
STRICT, DISABLE = peer_authentication("STRICT"), peer_authentication("DISABLE")
PASSTHROUGH = policy("{loadBalancer: {simple: PASSTHROUGH}}")


def rule(tls: str) -> str:
    return policy(f"{{tls: {{{tls}}}}}")


def headless_rule(tls: str) -> str:
    return rule(tls).replace("s.b.svc.cluster.local", HEADLESS)


CASES: list[tuple[Client, tuple[str, ...], TlsKind]] = [
    (SIDECAR, (INSIDE,), TlsKind.BY_ENDPOINT),
    (SIDECAR, (INSIDE, policy("{outlierDetection: {}}")), TlsKind.BY_ENDPOINT),
    (SIDECAR, (INSIDE, NO_AUTO), TlsKind.PLAIN),
    (SIDECAR, (INSIDE, peer_authentication("DISABLE")), TlsKind.PLAIN),
    (SIDECAR, (OUTSIDE,), TlsKind.PLAIN),
    (REDIRECTED, (ANYWHERE,), TlsKind.PLAIN),
    (SIDECAR, (INSIDE, rule("mode: DISABLE")), TlsKind.PLAIN),
    (WITH_FILES, (INSIDE, rule("mode: DISABLE")), TlsKind.PLAIN),
    (SIDECAR, (INSIDE, rule("mode: ISTIO_MUTUAL")), TlsKind.MESH),
    (SIDECAR, (OUTSIDE, rule("mode: ISTIO_MUTUAL")), TlsKind.MESH),
    (SIDECAR, (OUTSIDE, rule("mode: SIMPLE")), TlsKind.OWN),
    (SIDECAR, (OUTSIDE, rule(f"mode: MUTUAL, {FILES}")), TlsKind.OWN),
    # Files of the node take the place of the mesh's certificate, not of what a rule says outside.
    (WITH_FILES, (INSIDE,), TlsKind.OWN),
    (WITH_FILES, (INSIDE, rule("mode: ISTIO_MUTUAL")), TlsKind.OWN),
    (WITH_FILES, (OUTSIDE,), TlsKind.PLAIN),
    (WITH_FILES, (OUTSIDE, rule("mode: ISTIO_MUTUAL")), TlsKind.MESH),
    # Credentials are for gateways, and for workloads that a rule names.
    (ROUTER, (OUTSIDE, rule("mode: SIMPLE, credentialName: a")), TlsKind.OWN),
    (SIDECAR, (OUTSIDE, rule("mode: SIMPLE, credentialName: a")), TlsKind.REFUSED),
    # Who passes connections on knows no endpoints: they are all called alike.
    (REDIRECTED, (PODS,), TlsKind.MESH),
    (REDIRECTED, (PODS, STRICT), TlsKind.MESH),
    (REDIRECTED, (PODS, DISABLE), TlsKind.PLAIN),
    (REDIRECTED, (PODS, NO_AUTO), TlsKind.PLAIN),
    (REDIRECTED, (MIXED,), TlsKind.PLAIN),
    (REDIRECTED, (MIXED, STRICT), TlsKind.MESH),
    (REDIRECTED, (BARE, STRICT), TlsKind.PLAIN),
    (REDIRECTED, (NONE_RUN,), TlsKind.PLAIN),
    (REDIRECTED, (ONE_OF_TWO, ONE_WORKLOAD), TlsKind.PLAIN),
    (REDIRECTED, (INSIDE, PASSTHROUGH), TlsKind.MESH),
    (REDIRECTED, (PODS, headless_rule("mode: DISABLE")), TlsKind.PLAIN),
    (REDIRECTED, (MIXED, headless_rule("mode: ISTIO_MUTUAL")), TlsKind.MESH),
    (REDIRECTED, (PODS, headless_rule("mode: SIMPLE")), TlsKind.OWN),
    (REDIRECTED, (ANYWHERE, rule("mode: ISTIO_MUTUAL")), TlsKind.MESH),
    # Others balance over them, and speak to each as it takes it.
    (SIDECAR, (MIXED,), TlsKind.BY_ENDPOINT),
    (ROUTER, (MIXED, STRICT), TlsKind.BY_ENDPOINT),
    (ROUTER, (PODS, DISABLE), TlsKind.PLAIN),
    (ROUTER, (PODS, headless_rule("mode: DISABLE")), TlsKind.PLAIN),
]


@pytest.mark.parametrize(("client", "documents", "expected"), CASES)
def test_a_rule_comes_before_files_of_the_node_and_automatic_mutual_tls(
    model_of: Build, client: Client, documents: tuple[str, ...], expected: TlsKind
) -> None:
    model = model_of(*documents)
    (service,) = model.services
    port = service.ports[0]
    found = model.destination_rules.rule_for("b", service)
    effective = effective_policy(found, port.number, "", model)

    planned = upstream_tls(
        service,
        port,
        effective,
        rule=found,
        client=client,
        found=discovery(service, effective, client, is_http=True),
        model=model,
    )

    assert planned.kind is expected


@pytest.mark.parametrize(
    ("client", "document", "simple", "expected"),
    [
        (SIDECAR, INSIDE, "", Discovery.EDS),
        (SIDECAR, OUTSIDE, "", Discovery.STRICT_DNS),
        (SIDECAR, OUTSIDE.replace("DNS", "DNS_ROUND_ROBIN"), "", Discovery.LOGICAL_DNS),
        # Only who knows where a connection was going can send it there.
        (REDIRECTED, ANYWHERE, "", Discovery.ORIGINAL_DST),
        (SIDECAR, ANYWHERE, "", Discovery.FORWARD_PROXY),
        (ROUTER, ANYWHERE, "", Discovery.EDS),
        (REDIRECTED, INSIDE, "PASSTHROUGH", Discovery.ORIGINAL_DST),
        (SIDECAR, INSIDE, "PASSTHROUGH", Discovery.EDS),
        (REDIRECTED, INSIDE, "RANDOM", Discovery.EDS),
    ],
)
def test_endpoints_are_found_as_the_service_says_and_the_client_can(
    model_of: Build, client: Client, document: str, simple: str, expected: Discovery
) -> None:
    rules = [policy(f"{{loadBalancer: {{simple: {simple}}}}}")] if simple else []
    model = model_of(document, *rules)
    (service,) = model.services
    effective = effective_policy(model.destination_rules.rule_for("b", service), 80, "", model)

    assert discovery(service, effective, client, is_http=True) is expected
