"""Which DestinationRule a client has for a service, and how rules of one host are merged."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from istio_config import ConfigObject, InFile
from istio_config.kinds.destination_rule import DestinationRuleSpec
from istio_config.kinds.service_entry import Resolution
from mesh_model._destination_rules import DestinationRules
from mesh_model._services import Service
from mesh_settings import RULES

HOST = "s.b.svc.cluster.local"
SERVICE = Service(
    host=HOST, namespace="b", name="s", ports=(), resolution=Resolution.STATIC, external=False
)
RANDOM = {"loadBalancer": {"simple": "RANDOM"}}
ROUND_ROBIN = {"loadBalancer": {"simple": "ROUND_ROBIN"}}

Make = Callable[..., ConfigObject]


def rule(name: str, *, namespace: str = "b", created: str = "", **spec: Any) -> ConfigObject:
    return ConfigObject(
        kind="DestinationRule",
        group="networking.istio.io",
        namespace=namespace,
        name=name,
        created=created,
        spec=msgspec.convert({"host": HOST, **spec}, DestinationRuleSpec),
        origin=InFile("rules.yaml", 1),
    )


def found(client: str, *rules: ConfigObject, **labels: str) -> tuple[str, ...]:
    """Return the names of the rules that a client has for the service."""
    rule = DestinationRules.build(rules, RULES).rule_for(
        client, SERVICE, tuple(sorted(labels.items()))
    )
    return rule.names if rule is not None else ()


def select(**labels: str) -> dict[str, Any]:
    return {"workloadSelector": {"matchLabels": labels}}


ROOT = "istio-system"
LOOKUPS: list[tuple[str, tuple[ConfigObject, ...], tuple[str, ...]]] = [
    ("a", (rule("of-b"),), ("of-b",)),
    ("a", (rule("of-b"), rule("of-root", namespace=ROOT)), ("of-b",)),
    ("a", (rule("of-root", namespace=ROOT),), ("of-root",)),
    ("a", (rule("of-c", namespace="c"),), ()),
    # A wildcard of the client's own namespace hides a concrete rule of the service's.
    ("a", (rule("wild", namespace="a", host="*.b.svc.cluster.local"), rule("of-b")), ("wild",)),
    ("a", (rule("wild", host="*.b.svc.cluster.local"), rule("of-b")), ("of-b",)),
    ("a", (rule("any", host="*"), rule("longer", host="*.local")), ("longer",)),
    # Which host is most specific is decided before who may see it.
    ("a", (rule("hidden", exportTo=["."]), rule("wild", host="*")), ("wild",)),
    ("a", (rule("hidden", exportTo=["c"]), rule("wild", host="*")), ()),
    ("b", (rule("own", exportTo=["."]),), ("own",)),
    ("b", (rule("others", exportTo=["a"]),), ()),
    ("a", (rule("for-a", exportTo=["a"]),), ("for-a",)),
    ("c", (rule("for-a", exportTo=["a"]),), ()),
    ("a", (rule("nowhere", exportTo=["~"]), rule("of-root", namespace=ROOT)), ("of-root",)),
    # Clients in the root namespace have its private rules first, then the service's namespace.
    (ROOT, (rule("public", namespace=ROOT), rule("of-b")), ("of-b",)),
    (ROOT, (rule("own", namespace=ROOT, exportTo=["."]), rule("of-b")), ("own",)),
    # A host without dots is one of the rule's own namespace.
    ("a", (rule("short", host="s"),), ("short",)),
    ("a", (rule("short", namespace="a", host="s"),), ()),
]


@pytest.mark.parametrize(("client", "rules", "expected"), LOOKUPS)
def test_the_first_namespace_with_a_rule_for_the_host_decides(
    client: str, rules: tuple[ConfigObject, ...], expected: tuple[str, ...]
) -> None:
    assert found(client, *rules) == expected


def test_rules_of_one_host_have_the_policy_of_the_oldest_and_the_subsets_of_all() -> None:
    rules = DestinationRules.build(
        [
            rule("first", subsets=[{"name": "v1", "labels": {"v": "1"}}]),
            rule("second", trafficPolicy=RANDOM, subsets=[{"name": "v1", "labels": {"v": "x"}}]),
            rule("third", trafficPolicy=ROUND_ROBIN, subsets=[{"name": "v2"}]),
        ],
        RULES,
    )
    merged = rules.rule_for("a", SERVICE)
    assert merged is not None
    assert merged.names == ("first", "second", "third")
    assert (
        merged.spec.traffic_policy
        == msgspec.convert(
            {"host": "x", "trafficPolicy": RANDOM}, DestinationRuleSpec
        ).traffic_policy
    )
    assert list(merged.subsets) == ["v1", "v2"]
    assert merged.subsets["v1"].labels == {"v": "1"}


def test_rules_that_are_exported_elsewhere_are_not_merged_and_the_last_one_counts() -> None:
    rules = (rule("all"), rule("named", exportTo=["a"]))
    assert found("a", *rules) == ("named",)
    assert found("c", *rules) == ("all",)


def test_a_rule_for_some_workloads_is_for_those_of_its_own_namespace() -> None:
    rules = (rule("all"), rule("some", **select(app="web")), rule("others", **select(app="db")))
    assert found("b", *rules, app="web") == ("some",)
    assert found("b", *rules, app="x") == ("all",)
    assert found("a", *rules, app="web") == ("all",)
    assert found("b", rule("some", **select(app="web")), app="x") == ()
    assert DestinationRules.build(rules, RULES).labels_looked_at == {"app"}


def test_rules_are_the_same_while_their_objects_have_the_same_content() -> None:
    first, second = rule("first"), rule("second", host="other.example")
    before = DestinationRules.build([first, second], RULES)
    assert DestinationRules.build([first.moved(3), second], RULES, before=before) is before
    after = DestinationRules.build(
        [replace(first, spec=rule("x", host="new").spec), second], RULES, before=before
    )
    assert after is not before
    kept_hosts = [each.host for each in after.rules if each in before.rules]
    assert kept_hosts == ["other.example"]
    kept = next(each for each in after.rules if each.host == "other.example")
    assert any(kept is each for each in before.rules)


def test_the_default_of_export_to_is_the_meshs() -> None:
    rules = DestinationRules.build([rule("own")], RULES._replace(export_to=(".",)))
    assert rules.rule_for("a", SERVICE) is None
    assert rules.rule_for("b", SERVICE) is not None
