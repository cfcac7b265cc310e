"""The filter that checks tokens: each field of a rule, and what is required of a request."""

from typing import Any

import pytest
from envoy.extensions.filters.http.jwt_authn.v3 import config_pb2 as jwt_pb2
from google.protobuf.json_format import MessageToDict

from envoy_config.generate.policies._tokens import token_filters
from envoy_config.plan.policies._tokens import NO_TOKENS, Issuer, Tokens
from istio_config.kinds.request_authentication import JwtRule
from mesh_configfile.shapes import decode

MISSING: Any = {"allowMissing": {}}


def filter_of(*rules: Any, at_gateway: bool = False) -> dict[str, Any]:
    issuers = tuple(Issuer(decode(each, JwtRule), f"keys {at}") for at, each in enumerate(rules))
    (http_filter,) = token_filters(Tokens(issuers), at_gateway=at_gateway)
    assert http_filter.name == "envoy.filters.http.jwt_authn"
    config = jwt_pb2.JwtAuthentication()
    assert http_filter.typed_config.Unpack(config)
    return dict(MessageToDict(config))


def provider_of(rule: Any, *, at_gateway: bool = False) -> dict[str, Any]:
    providers = filter_of(rule, at_gateway=at_gateway)["providers"]
    return dict(providers["origins-0"])


ALWAYS = {
    "localJwks": {"inlineString": "keys 0"},
    "payloadInMetadata": "payload",
    "normalizePayloadInMetadata": {"spaceDelimitedClaims": ["permission", "scope"]},
}
FIELDS: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "issuer": ({"issuer": "a"}, {"issuer": "a"}),
    "audiences": ({"audiences": ["a", "b"]}, {"audiences": ["a", "b"]}),
    "headers": (
        {"fromHeaders": [{"name": "a", "prefix": "Bearer "}, {"name": "b"}]},
        {"fromHeaders": [{"name": "a", "valuePrefix": "Bearer "}, {"name": "b"}]},
    ),
    "parameters": ({"fromParams": ["a"]}, {"fromParams": ["a"]}),
    "cookies": ({"fromCookies": ["a"]}, {"fromCookies": ["a"]}),
    "payload": ({"outputPayloadToHeader": "a"}, {"forwardPayloadHeader": "a"}),
    "the token itself": ({"forwardOriginalToken": True}, {"forward": True}),
    "claims": (
        {"outputClaimToHeaders": [{"header": "a", "claim": "b.c"}]},
        {"claimToHeaders": [{"headerName": "a", "claimName": "b.c"}]},
    ),
    "claims of several values": (
        {"spaceDelimitedClaims": ["roles", "scope"]},
        {"normalizePayloadInMetadata": {"spaceDelimitedClaims": ["permission", "roles", "scope"]}},
    ),
}


@pytest.mark.parametrize("field", FIELDS)
def test_each_field_of_a_rule_is_one_of_the_provider(field: str) -> None:
    rule, wanted = FIELDS[field]
    assert provider_of(rule) == ALWAYS | wanted


def test_routes_are_chosen_anew_after_the_token_at_gateways_alone() -> None:
    assert provider_of({"issuer": "a"}, at_gateway=True)["clearRouteCache"] is True
    assert "clearRouteCache" not in provider_of({"issuer": "a"})


def test_token_of_one_issuer_is_right_or_missing() -> None:
    config = filter_of({"issuer": "a"})
    assert config["bypassCorsPreflight"] is True
    assert config["rules"] == [
        {
            "match": {"prefix": "/"},
            "requires": {"requiresAny": {"requirements": [{"providerName": "origins-0"}, MISSING]}},
        }
    ]


def test_token_is_right_for_one_of_several_issuers_or_wrong_for_none() -> None:
    (rule,) = filter_of({"issuer": "a"}, {"issuer": "b"})["rules"]
    first, second = {"providerName": "origins-0"}, {"providerName": "origins-1"}
    each = [{"requiresAny": {"requirements": [one, MISSING]}} for one in (first, second)]
    assert rule["requires"] == {
        "requiresAny": {"requirements": [first, second, {"requiresAll": {"requirements": each}}]}
    }


REQUIRED = "REQUIRED"


def test_a_required_token_is_right() -> None:
    (rule,) = filter_of({"issuer": "a", "presence": REQUIRED})["rules"]
    assert rule["requires"] == {"providerName": "origins-0"}


def test_required_tokens_are_all_right_and_others_do_not_matter() -> None:
    rules: Any = [
        {"issuer": "a", "presence": REQUIRED},
        {"issuer": "b"},
        {"issuer": "c", "presence": REQUIRED},
    ]
    (rule,) = filter_of(*rules)["rules"]
    others = {"requirements": [{"providerName": "origins-1"}, {"allowMissingOrFailed": {}}]}
    assert rule["requires"] == {
        "requiresAll": {
            "requirements": [
                {"providerName": "origins-0"},
                {"providerName": "origins-2"},
                {"requiresAny": others},
            ]
        }
    }


def test_without_issuers_there_is_no_filter() -> None:
    assert token_filters(NO_TOKENS, at_gateway=False) == ()
