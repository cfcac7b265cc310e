"""The RBAC filters of the policies of a workload: their order, and which rules they have."""

from collections.abc import Callable
from typing import Any

import pytest
from envoy.extensions.filters.http.rbac.v3 import rbac_pb2 as http_rbac_pb2
from envoy.extensions.filters.network.rbac.v3 import rbac_pb2 as network_rbac_pb2

from envoy_config.generate.policies._authorization import http_filters, network_filters
from envoy_config.plan.policies._authorization import (
    NO_AUTHORIZATION,
    Authorization,
    authorization_of,
)
from mesh_model import MeshModel, Workload

Build = Callable[..., MeshModel]
ACTIONS = {0: "ALLOW", 1: "DENY", 2: "LOG"}


def policy(name: str, spec: str, *, namespace: str = "a", annotations: str = "") -> str:
    more = f", annotations: {{{annotations}}}" if annotations else ""
    return (
        "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\n"
        f"metadata: {{name: {name}, namespace: {namespace}{more}}}\nspec: {spec}\n"
    )


def http(authorization: Authorization) -> list[http_rbac_pb2.RBAC]:
    found = []
    for each in http_filters(authorization):
        assert each.name == "envoy.filters.http.rbac"
        config = http_rbac_pb2.RBAC()
        assert each.typed_config.Unpack(config)
        found.append(config)
    return found


def network(authorization: Authorization) -> list[network_rbac_pb2.RBAC]:
    found = []
    for each in network_filters(authorization):
        assert each.name == "envoy.filters.network.rbac"
        config = network_rbac_pb2.RBAC()
        assert each.typed_config.Unpack(config)
        assert config.stat_prefix == "tcp."
        found.append(config)
    return found


def rules(config: Any) -> tuple[str, list[str]]:
    assert config.HasField("rules")
    return ACTIONS[config.rules.action], sorted(config.rules.policies)


ANYONE = "rules: [{}]"
DRY_RUN = "istio.io/dry-run: 'true'"


def test_there_is_a_filter_for_each_action_that_there_are_policies_of(model_of: Build) -> None:
    model = model_of(
        policy("allow", f"{{{ANYONE}}}"),
        policy("deny", "{action: DENY, rules: [{}, {to: [{operation: {ports: ['1']}}]}]}"),
        policy("audit", f"{{action: AUDIT, {ANYONE}}}"),
        policy("root", f"{{action: DENY, {ANYONE}}}", namespace="istio-system"),
        policy("elsewhere", f"{{action: DENY, {ANYONE}}}", namespace="b"),
    )
    found = authorization_of(Workload("a"), model)
    wanted = [
        ("LOG", ["ns[a]-policy[audit]-rule[0]"]),
        (
            "DENY",
            [
                "ns[a]-policy[deny]-rule[0]",
                "ns[a]-policy[deny]-rule[1]",
                "ns[istio-system]-policy[root]-rule[0]",
            ],
        ),
        ("ALLOW", ["ns[a]-policy[allow]-rule[0]"]),
    ]
    assert [rules(each) for each in http(found)] == wanted
    assert [rules(each) for each in network(found)] == wanted


def test_policy_without_rules_allows_nothing(model_of: Build) -> None:
    found = authorization_of(Workload("a"), model_of(policy("none", "{}")))
    assert [rules(each) for each in http(found)] == [("ALLOW", [])]
    assert [rules(each) for each in network(found)] == [("ALLOW", [])]


def test_where_requests_are_not_known_a_policy_that_allows_them_allows_nothing(
    model_of: Build,
) -> None:
    text = policy("get", "{rules: [{to: [{operation: {methods: [GET]}}]}]}")
    found = authorization_of(Workload("a"), model_of(text))
    assert [rules(each) for each in http(found)] == [("ALLOW", ["ns[a]-policy[get]-rule[0]"])]
    assert [rules(each) for each in network(found)] == [("ALLOW", [])]


def test_policy_that_is_tried_out_is_a_shadow_rule_and_enforces_nothing(model_of: Build) -> None:
    model = model_of(
        policy("deny", f"{{action: DENY, {ANYONE}}}", annotations=DRY_RUN),
        policy("allow", f"{{{ANYONE}}}"),
        policy("tried", f"{{{ANYONE}}}", annotations=DRY_RUN),
        policy("not-tried", f"{{{ANYONE}}}", annotations="istio.io/dry-run: 'false'"),
    )
    for each in (http, network):
        deny, allow = each(authorization_of(Workload("a"), model))
        assert not deny.HasField("rules")
        assert list(deny.shadow_rules.policies) == ["ns[a]-policy[deny]-rule[0]"]
        assert deny.shadow_rules_stat_prefix == "istio_dry_run_deny_"
        assert rules(allow)[1] == [
            "ns[a]-policy[allow]-rule[0]",
            "ns[a]-policy[not-tried]-rule[0]",
        ]
        assert list(allow.shadow_rules.policies) == ["ns[a]-policy[tried]-rule[0]"]
        assert allow.shadow_rules_stat_prefix == "istio_dry_run_allow_"


@pytest.mark.parametrize(
    "ref",
    [
        "{kind: Service, name: a}",
        "{group: networking.istio.io, kind: ServiceEntry, name: a}",
        "{group: gateway.networking.k8s.io, kind: GatewayClass, name: istio-waypoint}",
    ],
)
def test_policies_for_waypoints_are_for_no_proxy(ref: str, model_of: Build) -> None:
    model = model_of(policy("far", f"{{action: DENY, targetRefs: [{ref}], {ANYONE}}}"))
    named = (("gateway.networking.k8s.io/gateway-name", "a"),)
    for labels in ((), named):
        for is_gateway in (False, True):
            workload = Workload("a", labels, is_gateway=is_gateway)
            assert authorization_of(workload, model) == NO_AUTHORIZATION


def test_policies_for_a_gateway_of_the_gateway_api_are_not_for_sidecars(model_of: Build) -> None:
    ref = "targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: g}]"
    model = model_of(policy("gateway", f"{{action: DENY, {ref}, {ANYONE}}}"))
    name = (("gateway.networking.k8s.io/gateway-name", "g"),)
    assert authorization_of(Workload("a", name), model) == NO_AUTHORIZATION
    assert len(http(authorization_of(Workload("a", name, is_gateway=True), model))) == 1


def test_same_policies_in_the_next_model_are_the_same(model_of: Build) -> None:
    text = policy("allow", f"{{{ANYONE}}}")
    one, other = (authorization_of(Workload("a"), model_of(text)) for _ in range(2))
    assert one != other  # objects of two meshes that have nothing to do with each other
    model = model_of(text)
    one, other = (authorization_of(Workload("a"), model) for _ in range(2))
    assert (one, hash(one)) == (other, hash(other))
