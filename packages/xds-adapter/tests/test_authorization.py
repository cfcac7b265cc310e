"""Authorization policies in the form of Istio 1.11, decided by a plain Envoy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from adapted_envoys import http_get
from mesh_testkit.certificates import Authority
from meshes import mesh
from sidecar import CLIENT_ID, TYPES, Dictionary
from tokens import Issuer
from xds_adapter import Action, Adapter

AUTHN = "istio_authn"
ISSUER = "https://issuer.example/realm"
RBAC = "envoy.extensions.filters.http.rbac.v3.RBAC"
JWT = "envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication"


def text(path: list[str], match: Dictionary) -> Dictionary:
    """A matcher of a text in the metadata of istio_authn."""
    return read(path, {"string_match": match})


def item(path: list[str], match: Dictionary) -> Dictionary:
    return read(path, {"list_match": {"one_of": {"string_match": match}}})


def read(path: list[str], value: Dictionary) -> Dictionary:
    keys = [{"key": each} for each in path]
    return {"metadata": {"filter": AUTHN, "path": keys, "value": value}}


PRINCIPAL = CLIENT_ID.removeprefix("spiffe://")
SOURCE, BEARER = ["source.principal"], ["request.auth.principal"]
GROUPS, SCOPE = ["request.auth.claims", "groups"], ["request.auth.claims", "scope"]
NESTED = ["request.auth.claims", "realm", "roles"]
ANY: Dictionary = {"safe_regex": {"google_re2": {}, "regex": ".+"}}

MATCHERS: dict[str, tuple[Dictionary, bool]] = {
    "source": (text(SOURCE, {"exact": PRINCIPAL}), True),
    "source-other": (text(SOURCE, {"exact": PRINCIPAL + "2"}), False),
    "source-prefix": (text(SOURCE, {"prefix": "cluster.local/ns/default/"}), True),
    "source-suffix": (text(SOURCE, {"suffix": "/sa/client"}), True),
    "source-any": (text(SOURCE, ANY), True),
    "namespace": (
        text(SOURCE, {"safe_regex": {"google_re2": {}, "regex": ".*/ns/default/.*"}}),
        True,
    ),
    "namespace-other": (
        text(SOURCE, {"safe_regex": {"google_re2": {}, "regex": ".*/ns/b/.*"}}),
        False,
    ),
    "bearer": (text(BEARER, {"exact": f"{ISSUER}/some/body"}), True),
    "bearer-other": (text(BEARER, {"exact": f"{ISSUER}/some"}), False),
    "bearer-prefix": (text(BEARER, {"prefix": f"{ISSUER}/"}), True),
    "bearer-short-prefix": (text(BEARER, {"prefix": "https://iss"}), True),
    "bearer-long-prefix": (text(BEARER, {"prefix": f"{ISSUER}/some/b"}), True),
    "bearer-prefix-other": (text(BEARER, {"prefix": f"{ISSUER}/b"}), False),
    "bearer-suffix": (text(BEARER, {"suffix": "/body"}), True),
    "bearer-long-suffix": (text(BEARER, {"suffix": "realm/some/body"}), True),
    "bearer-suffix-other": (text(BEARER, {"suffix": "realm/body"}), False),
    "bearer-any": (text(BEARER, ANY), True),
    "audience": (text(["request.auth.audiences"], {"exact": "b"}), True),
    "audience-other": (text(["request.auth.audiences"], {"exact": "c"}), False),
    "presenter": (text(["request.auth.presenter"], {"exact": "app"}), True),
    "presenter-other": (text(["request.auth.presenter"], {"exact": "ap"}), False),
    "group": (item(GROUPS, {"exact": "admins"}), True),
    "group-other": (item(GROUPS, {"exact": "admin"}), False),
    "group-prefix": (item(GROUPS, {"prefix": "adm"}), True),
    "group-any": (item(GROUPS, ANY), True),
    "scope": (item(SCOPE, {"exact": "write"}), True),
    "scope-prefix": (item(SCOPE, {"prefix": "wri"}), True),
    "scope-suffix": (item(SCOPE, {"suffix": "ead"}), True),
    "scope-other": (item(SCOPE, {"exact": "rit"}), False),
    "nested": (item(NESTED, {"exact": "c"}), True),
    "absent": (item(["request.auth.claims", "none"], ANY), False),
}
"""By path: who is allowed there, and whether that is the client with its token."""


def rbac(policies: Dictionary, *, action: str = "ALLOW") -> Dictionary:
    config = {"@type": TYPES + RBAC, "rules": {"action": action, "policies": policies}}
    return {"name": "envoy.filters.http.rbac", "typed_config": config}


def at(path: str, principal: Dictionary) -> Dictionary:
    """A policy for one path, nested as istiod nests it."""
    url = {"url_path": {"path": {"exact": f"/{path}"}}}
    return {
        "permissions": [{"and_rules": {"rules": [{"or_rules": {"rules": [url]}}]}}],
        "principals": [{"and_ids": {"ids": [{"or_ids": {"ids": [principal]}}]}}],
    }


def tokens_verified(issuer: Issuer) -> Dictionary:
    provider = {
        "issuer": issuer.name,
        "local_jwks": {"inline_string": issuer.jwks},
        "payload_in_metadata": issuer.name,
        "forward": True,
    }
    requirement = {
        "requires_any": {"requirements": [{"provider_name": "origins-0"}, {"allow_missing": {}}]}
    }
    config = {
        "@type": TYPES + JWT,
        "providers": {"origins-0": provider},
        "rules": [{"match": {"prefix": "/"}, "requires": requirement}],
    }
    return {"name": "envoy.filters.http.jwt_authn", "typed_config": config}


async def test_rules_on_peers_and_tokens_decide_as_with_istios_filter(
    envoy_binary: Path, authority: Authority, socket_dir: Path, free_port: Callable[[], int]
) -> None:
    issuer, adapter = Issuer(ISSUER), Adapter()
    allowed: Dictionary = {path: at(path, matcher) for path, (matcher, _) in MATCHERS.items()}
    allowed["not-body"] = at("not-body", {"not_id": text(BEARER, {"suffix": "/body"})})
    denied: Dictionary = {"denied": at("denied", text(BEARER, {"prefix": ISSUER}))}
    allowed["denied"] = at("denied", {"any": True})
    rules = [tokens_verified(issuer), rbac(denied, action="DENY"), rbac(allowed)]
    token = issuer.token(
        sub="some/body",
        aud=["a", "b"],
        azp="app",
        groups=["users", "admins"],
        scope="read write",
        realm={"roles": ["c"]},
    )
    async with mesh(
        release="1.11",
        binary=envoy_binary,
        adapter=adapter,
        authority=authority,
        directory=socket_dir,
        free_port=free_port,
        rules=rules,
    ) as found:
        await found.server.wait_ready()
        await found.client.wait_ready()
        assert not found.server.refusals

        async def is_allowed(path: str, token: str = "", port: int = found.http_port) -> bool:
            headers = {"authorization": f"Bearer {token}"} if token else {}
            answer = await http_get(port, f"/{path}", **headers)
            assert " 200 " in answer or " 403 " in answer, answer
            return " 200 " in answer

        seen = {path: await is_allowed(path, token) for path in MATCHERS}
        assert seen == {path: expected for path, (_, expected) in MATCHERS.items()}
        of_peer = {"source", "source-prefix", "source-suffix", "source-any", "namespace"}
        without_token = {path for path in MATCHERS if await is_allowed(path)}
        assert without_token == of_peer
        plaintext = {path for path in MATCHERS if await is_allowed(path, port=found.inbound_port)}
        assert plaintext == set()
        assert not await is_allowed("not-body", token)
        assert await is_allowed("not-body")
        assert not await is_allowed("denied", token)
        assert await is_allowed("denied")
    lost = {(each.extension, each.action): each.lost for each in adapter.adaptations}
    assert lost["istio_authn", Action.REMOVED] == ""
    assert lost["istio_authn (rules)", Action.TRANSLATED] == ""


async def test_rules_that_cannot_be_translated_deny_all(
    envoy_binary: Path, authority: Authority, socket_dir: Path, free_port: Callable[[], int]
) -> None:
    adapter = Adapter()
    unknown: Dictionary = {"a": at("a", text(["source.user"], {"exact": "a"}))}
    async with mesh(
        release="1.11",
        binary=envoy_binary,
        adapter=adapter,
        authority=authority,
        directory=socket_dir,
        free_port=free_port,
        rules=[rbac(unknown, action="DENY")],
    ) as found:
        await found.server.wait_ready()
        await found.client.wait_ready()
        assert not found.server.refusals
        assert " 403 " in await http_get(found.http_port)
    adaptations = {each.extension: each for each in adapter.adaptations}
    assert adaptations["istio_authn"].action is Action.DENIED
    assert "source.user" in adaptations["istio_authn"].lost
