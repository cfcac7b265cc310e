"""What DestinationRules say without effect is reported with its field."""

from collections.abc import Callable

import pytest

from destination_rules import policy, rule
from documents import entry
from mesh_model import MeshModel
from unreachable import unreachable

SERVICE = entry(
    "s",
    "hosts: [s.b.svc.cluster.local], resolution: STATIC, location: MESH_INTERNAL, "
    "ports: [{number: 80, name: http, protocol: HTTP}, {number: 81, name: tcp, protocol: TCP}]",
    namespace="b",
)
OLD, NEW = "2020-01-01", "2021-01-01"
RANDOM = "trafficPolicy: {loadBalancer: {simple: RANDOM}}\n"

TOLD: dict[str, tuple[list[str], list[str]]] = {
    "nothing": ([policy("{tls: {mode: DISABLE}}")], []),
    "a service of another namespace": (
        [rule(RANDOM, namespace="a", host="s")],
        ["spec.host: there is no service s.a.svc.cluster.local: it has no effect"],
    ),
    "a wildcard of nothing": (
        [rule(RANDOM, host="*.example")],
        ['spec.host: no service has a host that is one of "*.example"'],
    ),
    "a wildcard of something": ([rule(RANDOM, host="*.local")], []),
    "the port that the application listens on": (
        [policy("{portLevelSettings: [{port: {number: 8080}, tls: {mode: DISABLE}}]}")],
        [
            (
                "spec.trafficPolicy.portLevelSettings[0].port.number: the service "
                "s.b.svc.cluster.local has no port 8080: its ports are 80, 81"
            ),
        ],
    ),
    "a rule after another": (
        [
            rule(f"{RANDOM}subsets: [{{name: v1}}]", name="first", created=OLD),
            rule(f"{RANDOM}subsets: [{{name: v2}}, {{name: v1}}]", name="second", created=NEW),
        ],
        [
            "spec.subsets[1]: DestinationRule b/first has a subset v1",
            "spec.trafficPolicy: DestinationRule b/first has one for the same host",
        ],
    ),
    "a rule for some workloads": (
        [
            rule(RANDOM, name="first", created=OLD),
            rule(f"{RANDOM}workloadSelector: {{matchLabels: {{app: a}}}}", name="second"),
        ],
        [],
    ),
}


@pytest.mark.parametrize(("documents", "wanted"), TOLD.values(), ids=TOLD)
def test_what_comes_to_nothing_is_reported(
    model_of: Callable[..., MeshModel], documents: list[str], wanted: list[str]
) -> None:
    problems = unreachable(model_of(SERVICE, *documents))
    messages = sorted(f"{each.field}: {each.message}" for each in problems)

    assert [each[: len(start)] for each, start in zip(messages, wanted, strict=True)] == wanted
