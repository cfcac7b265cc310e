"""The filter that checks the tokens of requests (`jwt_authn`).

A request without a token passes, one with a right token of any issuer too, one with wrong tokens
alone does not. Where rules require tokens, a request needs a right one of each of them. What a
right one says is found by policies in the metadata of the filter.
"""

from collections.abc import Sequence

from envoy.extensions.filters.http.jwt_authn.v3 import config_pb2 as jwt_pb2
from google.protobuf import empty_pb2

from envoy_config.generate._filters import http_filter
from envoy_config.generate._messages import (
    base_pb2,
    http_connection_manager_pb2,
    route_components_pb2,
)
from envoy_config.plan.policies._tokens import Issuer, Tokens
from istio_config.kinds.request_authentication import Presence

TOKEN_FILTER = "envoy.filters.http.jwt_authn"  # noqa: S105 - the name of a filter
PAYLOAD = "payload"
"""The key in the filter's metadata of what a token says."""
_SPACE_DELIMITED = ("permission", "scope")
_Requirement = jwt_pb2.JwtRequirement


def token_filters(
    tokens: Tokens, *, at_gateway: bool
) -> tuple[http_connection_manager_pb2.HttpFilter, ...]:
    """Make the filter: none if there is nothing to check.

    at_gateway: routes there may be chosen by what a token says.
    """
    if not tokens.issuers:
        return ()
    providers = {
        f"origins-{index}": _provider(each, at_gateway=at_gateway)
        for index, each in enumerate(tokens.issuers)
    }
    rule = jwt_pb2.RequirementRule(
        match=route_components_pb2.RouteMatch(prefix="/"),
        requires=_requirement(list(providers), tokens.issuers),
    )
    config = jwt_pb2.JwtAuthentication(
        providers=providers, rules=[rule], bypass_cors_preflight=True
    )
    return (http_filter(TOKEN_FILTER, config),)


def _provider(issuer: Issuer, *, at_gateway: bool) -> jwt_pb2.JwtProvider:
    rule = issuer.rule
    claims = sorted({*_SPACE_DELIMITED, *rule.space_delimited_claims})
    normalized = jwt_pb2.JwtProvider.NormalizePayload(space_delimited_claims=claims)
    return jwt_pb2.JwtProvider(
        issuer=rule.issuer,
        audiences=rule.audiences,
        local_jwks=base_pb2.DataSource(inline_string=issuer.keys),
        forward=rule.forward_original_token,
        from_headers=[
            jwt_pb2.JwtHeader(name=each.name, value_prefix=each.prefix)
            for each in rule.from_headers
        ],
        from_params=rule.from_params,
        from_cookies=rule.from_cookies,
        forward_payload_header=rule.output_payload_to_header,
        claim_to_headers=[
            jwt_pb2.JwtClaimToHeader(header_name=each.header, claim_name=each.claim)
            for each in rule.output_claim_to_headers
        ],
        payload_in_metadata=PAYLOAD,
        normalize_payload_in_metadata=normalized,
        clear_route_cache=at_gateway,
    )


def _requirement(providers: Sequence[str], issuers: Sequence[Issuer]) -> jwt_pb2.JwtRequirement:
    """Require the tokens that have to be there; without such rules, see `_if_present`."""
    required, optional = list[_Requirement](), list[_Requirement]()
    for name, issuer in zip(providers, issuers, strict=True):
        is_required = issuer.rule.presence is Presence.REQUIRED
        (required if is_required else optional).append(_Requirement(provider_name=name))
    if not required:
        return _if_present(optional)
    if optional:
        # Wrong tokens beside a right one do not matter, as without `presence`. So the token of a
        # required rule may stand in the header in which an optional one looks for its own.
        whatever = _Requirement(allow_missing_or_failed=empty_pb2.Empty())
        required.append(_any(*optional, whatever))
    if len(required) == 1:
        return required[0]
    return _Requirement(requires_all=jwt_pb2.JwtRequirementAndList(requirements=required))


def _if_present(each: Sequence[jwt_pb2.JwtRequirement]) -> jwt_pb2.JwtRequirement:
    """Require that a token, if there are any, is right for one of these providers."""
    if len(each) == 1:
        return _any(each[0], _missing())
    none_wrong = _Requirement(
        requires_all=jwt_pb2.JwtRequirementAndList(
            requirements=[_any(one, _missing()) for one in each]
        )
    )
    return _any(*each, none_wrong)


def _any(*requirements: jwt_pb2.JwtRequirement) -> jwt_pb2.JwtRequirement:
    return _Requirement(requires_any=jwt_pb2.JwtRequirementOrList(requirements=requirements))


def _missing() -> jwt_pb2.JwtRequirement:
    return _Requirement(allow_missing=empty_pb2.Empty())
