"""An edit of DestinationRules makes what it is about anew, and nothing else."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from destination_rules import rule
from documents import entry
from envoy_config.context._context import PushContext
from envoy_config.plan._proxy import Proxy
from mesh_model import MeshModel
from proxies import proxy_of
from xds_server import Node, Resource

Build = Callable[..., MeshModel]


def service(name: str, *addresses: str) -> str:
    listed = ", ".join(
        f"{{address: {each}, labels: {{version: v{index}}}, locality: r{index}/z1}}"
        for index, each in enumerate(addresses, 1)
    )
    return entry(
        name,
        f"hosts: [{name}.b.svc.cluster.local], location: MESH_INTERNAL, resolution: STATIC, "
        f"ports: [{{number: 80, name: http, protocol: HTTP}}], endpoints: [{listed}]",
        namespace="b",
    )


SERVICES = tuple(service(f"s{n}", f"10.0.{n}.1", f"10.0.{n}.2") for n in range(60))


def client(namespace: str = "a", **labels: str) -> Proxy:
    return proxy_of(
        Node(
            id=f"sidecar~10.9.0.1~c.{namespace}~{namespace}.svc.cluster.local",
            metadata={"LABELS": labels},
            region="r1",
            zone="z1",
        )
    )


def clusters(context: PushContext, proxy: Proxy) -> dict[str, Resource]:
    return {each.name: each for each in context.clusters(proxy).resources}


def endpoints(context: PushContext, proxy: Proxy) -> dict[str, Resource]:
    wanted = frozenset(each for each in clusters(context, proxy) if each.startswith("outbound|"))
    return {each.name: each for each in context.endpoints(proxy, wanted).resources}


def changed(old: dict[str, Resource], new: dict[str, Resource]) -> set[str]:
    """Return the names of what came, went or is not the same object."""
    return {name for name in old.keys() | new.keys() if old.get(name) is not new.get(name)}


def test_only_clusters_and_endpoints_of_the_rules_host_are_generated_anew(model_of: Build) -> None:
    v1 = rule("subsets: [{name: v1, labels: {version: v1}}]", host="s1.b.svc.cluster.local")
    v2 = rule("subsets: [{name: v2, labels: {version: v2}}]", host="s1.b.svc.cluster.local")
    before = PushContext(model_of(*SERVICES, v1))
    old = clusters(before, client()), endpoints(before, client())

    after = PushContext(model_of(*SERVICES, v2), before=before)
    new = clusters(after, client()), endpoints(after, client())

    host = "s1.b.svc.cluster.local"
    about = {f"outbound|80|{subset}|{host}" for subset in ("", "v1", "v2")}
    fixed = {"BlackHoleCluster", "PassthroughCluster"}
    assert changed(old[0], new[0]) == about - {f"outbound|80||{host}"}
    assert changed(old[1], new[1]) == about
    assert all(old[0][name].body == new[0][name].body for name in fixed)


def test_a_rule_of_a_namespace_is_no_one_elses(model_of: Build) -> None:
    own = rule("trafficPolicy: {tls: {mode: DISABLE}}", namespace="a", host="*.b.svc.cluster.local")
    before = PushContext(model_of(*SERVICES))
    old = {each: clusters(before, client(each)) for each in ("a", "c")}

    after = PushContext(model_of(*SERVICES, own), before=before)
    new = {each: clusters(after, client(each)) for each in ("a", "c")}

    def differing(namespace: str) -> int:
        return sum(
            old[namespace][name].body != new[namespace][name].body for name in old[namespace]
        )

    assert differing("a") == len(SERVICES)
    assert differing("c") == 0


RULES = [
    rule("subsets: [{name: v1, labels: {version: v1}}]", name="r0", host="s0"),
    rule("subsets: [{name: v2, labels: {version: v2}}]", name="r0", host="s0"),
    rule("trafficPolicy: {outlierDetection: {}}", name="r1", host="s1"),
    rule("trafficPolicy: {tls: {mode: SIMPLE}}", name="r2", host="*.b.svc.cluster.local"),
    rule(
        "workloadSelector: {matchLabels: {app: web}}\nsubsets: [{name: v1, labels: {version: v1}}]",
        name="r3",
        namespace="a",
        host="s1.b.svc.cluster.local",
    ),
    rule(
        "trafficPolicy: {loadBalancer: {localityLbSetting: {distribute: "
        "[{from: r1, to: {r1: 90, r2: 10}}]}}}",
        name="r4",
        namespace="istio-system",
        host="*",
    ),
    service("s1", "10.0.1.9"),
]
EDITS = st.lists(st.lists(st.sampled_from(RULES), max_size=4, unique_by=id), min_size=2, max_size=5)


@pytest.mark.slow
@given(edits=EDITS)
@settings(
    max_examples=25, deadline=None, suppress_health_check=(HealthCheck.function_scoped_fixture,)
)
def test_after_any_edits_all_is_as_in_a_fresh_start(
    model_of: Build, edits: list[list[str]]
) -> None:
    context: PushContext | None = None
    proxies = client(), client(app="web"), client("b")
    for step, documents in enumerate(edits):
        known: dict[str, str] = {text.split("spec:")[0]: text for text in (*SERVICES, *documents)}
        model = model_of(*known.values())
        context = PushContext(model, before=context)
        fresh = PushContext(model)
        # Not every proxy asks after every edit.
        for proxy in proxies[step % 2 :]:
            for found in (clusters, endpoints):
                expected = {name: each.body for name, each in found(fresh, proxy).items()}
                assert {name: each.body for name, each in found(context, proxy).items()} == expected
