"""RequestAuthentications with real Envoys: tokens are checked, and policies see them."""

import json
from typing import NamedTuple

import aiohttp
from aiohttp import web

from gateway_documents import gateway, server, service, to, virtual_service
from guarded_service import Guarded, guarded_service
from planes import eventually
from scenarios import Scene
from signed_tokens import Issuer

ISSUER = "https://issuer.example"


def authentication(*rules: str, selector: str = "{app: s}") -> str:
    return (
        "apiVersion: security.istio.io/v1\nkind: RequestAuthentication\n"
        "metadata: {name: tokens, namespace: b}\n"
        f"spec: {{selector: {{matchLabels: {selector}}}, jwtRules: [{', '.join(rules)}]}}\n"
    )


def policy(rule: str) -> str:
    return (
        "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\n"
        f"metadata: {{name: allow, namespace: b}}\nspec: {{rules: [{rule}]}}\n"
    )


class Answered(NamedTuple):
    status: int
    seen: dict[str, str]


async def asked(found: Guarded, token: str | None = None, **headers: str) -> Answered:
    """Ask S in plaintext, on a new connection; return what the application saw."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    if token is not None:
        given["authorization"] = f"Bearer {token}"
    url = f"http://{found.sidecar.address}:{found.application.port}/"
    async with aiohttp.ClientSession() as session, session.get(url, headers=given) as answer:
        text = await answer.text()
    if answer.status != 200:
        return Answered(answer.status, {})
    return Answered(200, {name.lower(): value for name, value in json.loads(text)["headers"]})


async def test_wrong_tokens_are_refused_and_missing_ones_are_for_policies_to_refuse(
    scene: Scene,
) -> None:
    """Scenario 59."""
    found = await guarded_service(scene)
    issuer, other = Issuer(ISSUER), Issuer("https://other.example")
    await scene.apply(tokens=authentication(issuer.rule(", audiences: [shop]")))
    good = issuer.token(aud="shop")

    async def statuses(*tokens: str | None) -> list[int]:
        return [(await asked(found, each)).status for each in tokens]

    assert await statuses(None, good) == [200, 200]
    wrong = {
        "issuer": other.token(aud="shop"),
        "time": issuer.token(aud="shop", expires_in_s=-3600),
        "key": Issuer(ISSUER).token(aud="shop"),
        "audience": issuer.token(aud="bank"),
        "form": "not.a.token",
    }
    assert await statuses(*wrong.values()) == [401, 401, 401, 403, 401]

    await scene.apply(
        allow=policy(f"{{from: [{{source: {{requestPrincipals: ['{ISSUER}/sub']}}}}]}}")
    )
    assert await statuses(None, good, issuer.token(aud="shop", sub="x")) == [403, 200, 403]

    groups = "{when: [{key: 'request.auth.claims[groups]', values: [g1]}]}"
    await scene.apply(allow=policy(groups))
    listed = issuer.token(aud="shop", groups=["g0", "g1"])
    one = issuer.token(aud="shop", groups="g1")
    none = issuer.token(aud="shop", groups=["g2"])
    assert await statuses(listed, one, none, good) == [200, 200, 403, 403]


async def test_a_required_token_can_not_be_missing(scene: Scene) -> None:
    """Scenario 59, with `presence`."""
    found = await guarded_service(scene)
    first, second = Issuer("https://a.example"), Issuer("https://b.example")
    required = ", presence: REQUIRED"
    elsewhere = "fromHeaders: [{name: x-second}]"
    of_first, of_second = first.token(), second.token()

    async def status(token: str | None, other: str | None = None) -> int:
        headers = {} if other is None else {"x_second": other}
        return (await asked(found, token, **headers)).status

    await scene.apply(tokens=authentication(first.rule(required), second.rule(f", {elsewhere}")))
    assert [await status(None), await status(None, of_second)] == [401, 401]
    assert [await status(of_first), await status(of_first, of_second)] == [200, 200]

    await scene.apply(
        tokens=authentication(first.rule(required), second.rule(f"{required}, {elsewhere}"))
    )
    assert [await status(of_first), await status(None, of_second)] == [401, 401]
    assert await status(of_first, of_second) == 200

    await scene.apply(tokens=authentication(first.rule(required), second.rule()))
    assert [await status(of_first), await status(of_second)] == [200, 401]


async def test_the_first_of_several_issuers_counts_and_claims_reach_the_application(
    scene: Scene,
) -> None:
    """Scenario 60: the first part."""
    found = await guarded_service(scene)
    first, second = Issuer("https://a.example", algorithm="ES256"), Issuer("https://b.example")
    claims = ", outputClaimToHeaders: [{header: x-user, claim: sub}], forwardOriginalToken: true"
    await scene.apply(
        tokens=authentication(
            second.rule(f"{claims}, fromHeaders: [{{name: x-second}}]"), first.rule(claims)
        )
    )
    of_first, of_second = first.token(sub="one"), second.token(sub="two")
    answer = await asked(found, of_first, x_user="forged")
    assert (answer.status, answer.seen["x-user"]) == (200, "one")
    assert answer.seen["authorization"] == f"Bearer {of_first}"
    assert (await asked(found, None, x_second=of_second)).seen["x-user"] == "two"
    assert "x-user" not in (await asked(found, None, x_user="forged")).seen

    await scene.apply(
        allow=policy("{from: [{source: {requestPrincipals: ['https://a.example/*']}}]}")
    )
    assert (await asked(found, of_first, x_second=of_second)).status == 200
    assert (await asked(found, None, x_second=of_second)).status == 403


async def test_tokens_are_refused_until_the_keys_of_their_issuer_can_be_fetched(
    scene: Scene,
) -> None:
    """Scenario 60, the second part."""
    found = await guarded_service(scene)
    issuer = Issuer(ISSUER)
    port = scene.port()
    uri = f"http://127.0.0.1:{port}/keys"
    await scene.apply(tokens=authentication(f"{{issuer: '{ISSUER}', jwksUri: '{uri}'}}"))
    assert (await asked(found, issuer.token())).status == 401
    assert (await asked(found)).status == 200

    async def keys(_request: web.Request) -> web.Response:
        return web.Response(text=issuer.key_set)

    app = web.Application()
    app.router.add_get("/keys", keys)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()

        async def status() -> int:
            return (await asked(found, issuer.token())).status

        await eventually(status, wanted=200, what="the token being right")
        assert (await asked(found, Issuer(ISSUER).token())).status == 401
    finally:
        await runner.cleanup()


async def test_gateways_choose_routes_by_claims(scene: Scene) -> None:
    v1, v2 = await scene.echo("v1"), await scene.echo("v2")
    issuer = Issuer(ISSUER)
    router, port = await scene.router(), scene.port()
    claim = {"headers": {"@request.auth.claims.group": {"exact": "new"}}}
    await scene.apply(
        s=service(v1.address, host="s.b.svc.cluster.local"),
        t=service(v2.address, host="t.b.svc.cluster.local"),
        gw=gateway(server("HTTP", port, "*")),
        vs=virtual_service(
            "a.example",
            http=[
                {"match": [claim], "route": to("t.b.svc.cluster.local")},
                {"route": to("s.b.svc.cluster.local")},
            ],
        ),
        tokens=authentication(issuer.rule(), selector="{istio: ingressgateway}"),
    )

    async def version(*, headers: dict[str, str]) -> str:
        answer = await router.get(f"http://a.example:{port}/", headers=headers)
        return answer.version

    assert await version(headers={}) == "v1"
    of_group = {"Authorization": f"Bearer {issuer.token(group='new')}"}
    assert await version(headers=of_group) == "v2"
    of_other = {"Authorization": f"Bearer {issuer.token(group='old')}"}
    assert await version(headers=of_other) == "v1"
