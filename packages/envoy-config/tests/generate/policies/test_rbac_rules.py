"""Rules of AuthorizationPolicies as RBAC: each field, each way to write a value, each point."""

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from envoy_config.generate.policies._rbac_rules import EnforcementPoint, Meaning, rbac_policy
from istio_config.kinds.authorization_policy import Rule
from mesh_configfile.shapes import decode

ANY = {"any": True}


def policy_of(
    rule: Any, *, allows: bool = True, point: EnforcementPoint = EnforcementPoint.REQUESTS_OF_ENVOY
) -> Any:
    meaning = Meaning("shop", ("mesh.example", "old.example", "cluster.local"), allows, point)
    policy = rbac_policy(decode(rule, Rule), meaning)
    return None if policy is None else MessageToDict(policy)


def named(**match: Any) -> dict[str, Any]:
    return {"authenticated": {"principalName": match}}


def regex(text: str) -> dict[str, Any]:
    return named(safeRegex={"regex": text})


def claim(name: str, **match: Any) -> dict[str, Any]:
    listed = {"listMatch": {"oneOf": {"stringMatch": match}}}
    return {
        "metadata": {
            "filter": "envoy.filters.http.jwt_authn",
            "path": [{"key": "payload"}, {"key": name}],
            "value": {"orMatch": {"valueMatchers": [{"stringMatch": match}, listed]}},
        }
    }


def has_claim(name: str) -> dict[str, Any]:
    found = claim(name, exact="x")
    found["metadata"]["value"] = {"presentMatch": True}
    return found


def both(*each: Any) -> dict[str, Any]:
    return {"andIds": {"ids": list(each)}}


def either(*each: Any) -> dict[str, Any]:
    return {"orIds": {"ids": list(each)}}


def header(name: str, **match: Any) -> dict[str, Any]:
    return {"header": {"name": name, "stringMatch": match}}


SOURCES: dict[str, tuple[str, list[str], Any]] = {
    "principal": ("principals", ["x/ns/a/sa/b"], named(exact="spiffe://x/ns/a/sa/b")),
    "beginning of a principal": ("principals", ["x/ns/a*"], named(prefix="spiffe://x/ns/a")),
    "end of a principal": ("principals", ["*/sa/b.c"], regex(r"spiffe://.*/sa/b\.c")),
    "any principal": ("principals", ["*"], regex(".+")),
    "principal of the mesh": (
        "principals",
        ["cluster.local/ns/a/sa/b"],
        either(
            named(exact="spiffe://mesh.example/ns/a/sa/b"),
            named(exact="spiffe://old.example/ns/a/sa/b"),
            named(exact="spiffe://cluster.local/ns/a/sa/b"),
        ),
    ),
    "several principals": (
        "principals",
        ["x/a", "y/b"],
        either(named(exact="spiffe://x/a"), named(exact="spiffe://y/b")),
    ),
    "namespace": ("namespaces", ["a.b"], regex(r".*/ns/a\.b/.*")),
    "beginning of a namespace": ("namespaces", ["a*"], regex(".*/ns/a.*/.*")),
    "service account": ("serviceAccounts", ["a"], regex("spiffe://.+/ns/shop/(.+/|)sa/a(/.+)?")),
    "service account elsewhere": (
        "serviceAccounts",
        ["b/a"],
        regex("spiffe://.+/ns/b/(.+/|)sa/a(/.+)?"),
    ),
    "trust domain": ("trustDomains", ["x.example"], named(prefix="spiffe://x.example/")),
    "part of a trust domain": ("trustDomains", ["*.x"], regex(r"spiffe://[^/]*\.x/.*")),
    "any trust domain": ("trustDomains", ["*"], regex("spiffe://[^/]+/.*")),
    "trust domain of the mesh": (
        "trustDomains",
        ["old.example"],
        either(
            named(prefix="spiffe://mesh.example/"),
            named(prefix="spiffe://old.example/"),
            named(prefix="spiffe://cluster.local/"),
        ),
    ),
    "address": (
        "ipBlocks",
        ["10.0.0.1"],
        {"directRemoteIp": {"addressPrefix": "10.0.0.1", "prefixLen": 32}},
    ),
    "range of IPv6": (
        "ipBlocks",
        ["fd00::/8"],
        {"directRemoteIp": {"addressPrefix": "fd00::", "prefixLen": 8}},
    ),
    "any address": (
        "remoteIpBlocks",
        ["::/0"],
        {"remoteIp": {"addressPrefix": "::", "prefixLen": 0}},
    ),
    "token": (
        "requestPrincipals",
        ["https://i/a/s"],
        both(claim("iss", exact="https://i/a"), claim("sub", exact="s")),
    ),
    "any token": ("requestPrincipals", ["*"], both(has_claim("iss"), has_claim("sub"))),
    "tokens of an issuer": (
        "requestPrincipals",
        ["https://i/*"],
        both(claim("iss", exact="https://i"), has_claim("sub")),
    ),
    "tokens of a subject": (
        "requestPrincipals",
        ["*/s"],
        both(has_claim("iss"), claim("sub", exact="s")),
    ),
    "beginning of a subject": (
        "requestPrincipals",
        ["i/s*"],
        both(claim("iss", exact="i"), claim("sub", prefix="s")),
    ),
    "end of an issuer": (
        "requestPrincipals",
        ["*i/s"],
        both(claim("iss", suffix="i"), claim("sub", exact="s")),
    ),
}


@pytest.mark.parametrize("case", SOURCES)
def test_each_field_of_a_source_is_a_principal_and_its_opposite_none(case: str) -> None:
    field, given, wanted = SOURCES[case]
    assert policy_of({"from": [{"source": {field: given}}]}) == {
        "permissions": [ANY],
        "principals": [wanted],
    }
    opposite = f"not{field[0].upper()}{field[1:]}"
    assert policy_of({"from": [{"source": {opposite: given}}]})["principals"] == [{"notId": wanted}]


TEMPLATE = {
    "uriTemplate": {
        "name": "envoy.path.match.uri_template.uri_template_matcher",
        "typedConfig": {
            "@type": "type.googleapis.com/"
            "envoy.extensions.path.match.uri_template.v3.UriTemplateMatchConfig",
            "pathTemplate": "/a/*/**",
        },
    }
}
OPERATIONS: dict[str, tuple[str, list[str], Any]] = {
    "host": ("hosts", ["A.example"], header(":authority", exact="A.example", ignoreCase=True)),
    "end of a host": ("hosts", ["*.x"], header(":authority", suffix=".x", ignoreCase=True)),
    "any host": ("hosts", ["*"], {"header": {"name": ":authority", "presentMatch": True}}),
    "method": ("methods", ["GET"], header(":method", exact="GET")),
    "path": ("paths", ["/a"], {"urlPath": {"path": {"exact": "/a"}}}),
    "beginning of a path": ("paths", ["/a*"], {"urlPath": {"path": {"prefix": "/a"}}}),
    "end of a path": ("paths", ["*.html"], {"urlPath": {"path": {"suffix": ".html"}}}),
    "any path": ("paths", ["*"], {"urlPath": {"path": {"safeRegex": {"regex": ".+"}}}}),
    "template of a path": ("paths", ["/a/{*}/{**}"], TEMPLATE),
    "port": ("ports", ["8080"], {"destinationPort": 8080}),
}


@pytest.mark.parametrize("case", OPERATIONS)
def test_each_field_of_an_operation_is_a_permission_and_its_opposite_none(case: str) -> None:
    field, given, wanted = OPERATIONS[case]
    assert policy_of({"to": [{"operation": {field: given}}]}) == {
        "permissions": [wanted],
        "principals": [ANY],
    }
    opposite = f"not{field[0].upper()}{field[1:]}"
    assert policy_of({"to": [{"operation": {opposite: given}}]})["permissions"] == [
        {"notRule": wanted}
    ]


OF_CALLERS: dict[str, tuple[str, str, Any]] = {
    "source.ip": (
        "source.ip",
        "10.0.0.0/8",
        {"directRemoteIp": {"addressPrefix": "10.0.0.0", "prefixLen": 8}},
    ),
    "remote.ip": (
        "remote.ip",
        "::1",
        {"remoteIp": {"addressPrefix": "::1", "prefixLen": 128}},
    ),
    "source.namespace": ("source.namespace", "a", regex(".*/ns/a/.*")),
    "source.principal": ("source.principal", "x/a", named(exact="spiffe://x/a")),
    "source.serviceAccount": (
        "source.serviceAccount",
        "b/a",
        regex("spiffe://.+/ns/b/(.+/|)sa/a(/.+)?"),
    ),
    "source.trustDomain": ("source.trustDomain", "x", named(prefix="spiffe://x/")),
    "request.auth.principal": (
        "request.auth.principal",
        "i/s",
        both(claim("iss", exact="i"), claim("sub", exact="s")),
    ),
    "audiences": ("request.auth.audiences", "a", claim("aud", exact="a")),
    "presenter": ("request.auth.presenter", "a*", claim("azp", prefix="a")),
    "claim": ("request.auth.claims[groups]", "*a", claim("groups", suffix="a")),
    "header": ("request.headers[x-a]", "b", header("x-a", exact="b")),
    "any value of a header": (
        "request.headers[x-a]",
        "*",
        {"header": {"name": "x-a", "presentMatch": True}},
    ),
}


@pytest.mark.parametrize("case", OF_CALLERS)
def test_conditions_on_callers_hold_for_each_source(case: str) -> None:
    key, value, wanted = OF_CALLERS[case]
    rule = {
        "from": [{"source": {"principals": ["x/1"]}}, {"source": {"principals": ["x/2"]}}],
        "when": [{"key": key, "values": [value]}],
    }
    assert policy_of(rule)["principals"] == [
        both(named(exact="spiffe://x/1"), wanted),
        both(named(exact="spiffe://x/2"), wanted),
    ]
    alone = policy_of({"when": [{"key": key, "notValues": [value]}]})
    assert alone == {"permissions": [ANY], "principals": [{"notId": wanted}]}


OF_CALLED: dict[str, tuple[str, str, Any]] = {
    "destination.ip": (
        "destination.ip",
        "10.0.0.1",
        {"destinationIp": {"addressPrefix": "10.0.0.1", "prefixLen": 32}},
    ),
    "destination.port": ("destination.port", "80", {"destinationPort": 80}),
    "connection.sni": ("connection.sni", "*.x", {"requestedServerName": {"suffix": ".x"}}),
    "metadata of a filter": (
        "experimental.envoy.filters.network.mongo_proxy[db.t]",
        "[find]",
        {
            "metadata": {
                "filter": "envoy.filters.network.mongo_proxy",
                "path": [{"key": "db.t"}],
                "value": {"listMatch": {"oneOf": {"stringMatch": {"exact": "find"}}}},
            }
        },
    ),
}


@pytest.mark.parametrize("case", OF_CALLED)
def test_conditions_on_what_is_called_hold_for_each_operation(case: str) -> None:
    key, value, wanted = OF_CALLED[case]
    rule = {
        "to": [{"operation": {"ports": ["1"]}}, {"operation": {"ports": ["2"]}}],
        "when": [{"key": key, "values": [value]}],
    }
    assert policy_of(rule)["permissions"] == [
        {"andRules": {"rules": [{"destinationPort": 1}, wanted]}},
        {"andRules": {"rules": [{"destinationPort": 2}, wanted]}},
    ]


def test_nested_claims_are_a_path() -> None:
    rule = {"when": [{"key": "request.auth.claims[a][b.c]", "values": ["*"]}]}
    path = policy_of(rule)["principals"][0]["metadata"]["path"]
    assert path == [{"key": "payload"}, {"key": "a"}, {"key": "b.c"}]


def test_values_and_opposites_of_all_fields_have_to_match() -> None:
    source = {"principals": ["x/a*"], "notPrincipals": ["x/ab"], "ipBlocks": ["10.0.0.1"]}
    assert policy_of({"from": [{"source": source}]})["principals"] == [
        both(
            named(prefix="spiffe://x/a"),
            {"notId": named(exact="spiffe://x/ab")},
            {"directRemoteIp": {"addressPrefix": "10.0.0.1", "prefixLen": 32}},
        )
    ]


def test_rule_that_says_nothing_matches_all() -> None:
    assert policy_of({}) == {"permissions": [ANY], "principals": [ANY]}


OF_REQUESTS: dict[str, Any] = {
    "hosts": {"to": [{"operation": {"hosts": ["a"]}}]},
    "methods": {"to": [{"operation": {"notMethods": ["GET"]}}]},
    "paths": {"to": [{"operation": {"paths": ["/a"]}}]},
    "tokens": {"from": [{"source": {"requestPrincipals": ["*"]}}]},
    "headers": {"when": [{"key": "request.headers[a]", "values": ["b"]}]},
    "claims": {"when": [{"key": "request.auth.claims[a]", "values": ["b"]}]},
    "audiences": {"when": [{"key": "request.auth.audiences", "notValues": ["b"]}]},
}


@pytest.mark.parametrize("case", OF_REQUESTS)
def test_where_requests_are_not_known_nothing_is_allowed_by_them_and_more_is_denied(
    case: str,
) -> None:
    rule = OF_REQUESTS[case]
    assert policy_of(rule, point=EnforcementPoint.CONNECTIONS) is None
    wider = policy_of(rule, point=EnforcementPoint.CONNECTIONS, allows=False)
    assert wider == {"permissions": [ANY], "principals": [ANY]}


def test_of_a_rule_that_denies_connections_what_is_known_stays() -> None:
    rule = {
        "from": [{"source": {"principals": ["x/a"], "requestPrincipals": ["*"]}}],
        "to": [{"operation": {"ports": ["80"], "paths": ["/a"]}}],
    }
    assert policy_of(rule, point=EnforcementPoint.CONNECTIONS, allows=False) == {
        "permissions": [{"destinationPort": 80}],
        "principals": [named(exact="spiffe://x/a")],
    }


UNKNOWN_TO_GRPC: dict[str, Any] = {
    "templates": {"to": [{"operation": {"paths": ["/a/{*}"]}}]},
    "names in TLS": {"when": [{"key": "connection.sni", "values": ["a"]}]},
}


@pytest.mark.parametrize("case", UNKNOWN_TO_GRPC)
def test_what_grpc_would_refuse_is_left_out_so_that_no_more_is_allowed(case: str) -> None:
    rule = UNKNOWN_TO_GRPC[case]
    assert policy_of(rule, point=EnforcementPoint.PROXYLESS) is None
    wider = policy_of(rule, point=EnforcementPoint.PROXYLESS, allows=False)
    assert wider == {"permissions": [ANY], "principals": [ANY]}
