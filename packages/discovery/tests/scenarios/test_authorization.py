"""AuthorizationPolicies with real Envoys: who may call a workload, and what of it."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gateway_documents import gateway, server, to, virtual_service
from guarded_service import Guarded, guarded_service
from planes import eventually
from scenarios import Scene


def policy(spec: str, name: str = "policy", *, namespace: str = "b", annotations: str = "") -> str:
    more = f", annotations: {{{annotations}}}" if annotations else ""
    return (
        "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\n"
        f"metadata: {{name: {name}, namespace: {namespace}{more}}}\nspec: {spec}\n"
    )


C = "cluster.local/ns/a/sa/c"


async def becomes(status: Callable[[], Awaitable[int]], wanted: int) -> None:
    """Wait for a status: connections from before an edit go on as they were until they drain."""
    await eventually(status, wanted=wanted, what=f"status {wanted}")


def call(found: Guarded, path: str = "/", *, method: str = "GET") -> Callable[[], Awaitable[int]]:
    async def status() -> int:
        return (await found.call(path, method=method)).status

    return status


async def test_nothing_is_allowed_until_a_policy_allows_it(scene: Scene) -> None:
    """Scenario 55."""
    found = await guarded_service(scene)
    assert (await found.call("/ok1")).status == 200

    await scene.apply(none=policy("{}", "none"))
    await becomes(call(found, "/ok1"), 403)
    denied = await found.call("/ok1")
    assert (denied.status, denied.body) == (403, "RBAC: access denied")

    rule = f"{{from: [{{source: {{principals: [{C}]}}}}], to: [{{operation: "
    await scene.apply(allow=policy(f"{{rules: [{rule}{{methods: [GET], paths: ['/ok*']}}}}]}}]}}"))
    await becomes(call(found, "/ok1"), 200)
    assert (await found.call("/ok1", method="POST")).status == 403
    assert (await found.call("/other")).status == 403
    assert await found.plain("/ok1") == 403

    await scene.apply(none=None, allow=None)
    assert await found.plain("/ok1") == 200


async def test_callers_without_a_certificate_are_denied(scene: Scene) -> None:
    """Scenario 56: the first part."""
    found = await guarded_service(scene)
    rule = "{from: [{source: {notPrincipals: ['*']}}]}"
    await scene.apply(deny=policy(f"{{action: DENY, rules: [{rule}]}}"))
    assert await found.plain() == 403
    assert (await found.call()).status == 200


async def test_paths_are_denied_however_they_are_written_and_denials_come_first(
    scene: Scene,
) -> None:
    """Scenario 56: the second part."""
    found = await guarded_service(scene)
    await scene.apply(
        allow=policy("{rules: [{}]}", "allow"),
        deny=policy("{action: DENY, rules: [{to: [{operation: {paths: [/admin]}}]}]}", "deny"),
        mesh_config=(
            "apiVersion: mesh.istio.io/v1alpha1\nkind: MeshConfig\n"
            "spec: {pathNormalization: {normalization: MERGE_SLASHES}}\n"
        ),
    )
    for path in ("/admin", "//admin", "/a/../admin", "/%61dmin", "/admin?a=b"):
        assert await found.plain(path) == 403, path
    assert await found.plain("/") == 200


async def test_templates_of_paths_match_whole_segments(scene: Scene) -> None:
    found = await guarded_service(scene)
    operation = "{operation: {paths: ['/shops/{*}/items', '/files/{**}']}}"
    await scene.apply(allow=policy(f"{{rules: [{{to: [{operation}]}}]}}"))
    assert [
        await found.plain(path)
        for path in ("/shops/1/items", "/files/a/b", "/shops/1/2/items", "/shops/1", "/other")
    ] == [200, 200, 403, 403, 403]


NO_BANNER = b""


async def test_connections_are_allowed_by_nothing_that_only_requests_have(scene: Scene) -> None:
    """Scenario 57."""
    found = await guarded_service(scene)
    answer = await found.connect()
    assert answer != NO_BANNER

    await scene.apply(policy=policy("{rules: [{to: [{operation: {methods: [GET]}}]}]}"))
    assert await found.connect() == NO_BANNER
    assert await found.plain() == 200

    deny = "{action: DENY, rules: [{to: [{operation: {paths: [/admin]}}]}]}"
    await scene.apply(policy=policy(deny))
    assert await found.connect() == NO_BANNER
    assert await found.plain() == 200

    of_a_port = f"[{{operation: {{ports: ['{found.application.port}'], paths: [/admin]}}}}]"
    await scene.apply(policy=policy(f"{{action: DENY, rules: [{{to: {of_a_port}}}]}}"))
    assert await found.connect() == answer
    assert (await found.plain("/admin"), await found.plain()) == (403, 200)


async def test_banner_of_a_server_that_speaks_first_passes_before_a_client_is_denied(
    scene: Scene,
) -> None:
    """Scenario 62, the second part: a hole that is documented."""
    found = await guarded_service(scene, banner=b"welcome\n")
    await scene.apply(deny=policy("{action: DENY, rules: [{}]}"))
    reader, writer = await asyncio.open_connection(found.sidecar.address, found.connections.port)
    try:
        assert await reader.readline() == b"welcome\n"
        writer.write(b"hello\n")
        await writer.drain()
        assert await reader.read() == b""
    finally:
        writer.close()


async def test_policy_that_is_tried_out_counts_and_denies_nothing(scene: Scene) -> None:
    """Scenario 62, the first part."""
    found = await guarded_service(scene)
    text = policy("{action: DENY, rules: [{}]}", annotations="istio.io/dry-run: 'true'")
    await scene.apply(deny=text)
    assert (await found.call()).status == 200

    async def counted() -> bool:
        stats = await found.sidecar.stats(".*istio_dry_run_deny_.*shadow_denied")
        return any(stats.values())

    await eventually(counted, what="the denial being counted")


@pytest.mark.parametrize(
    ("field", "of_peer", "of_client"), [("ipBlocks", 200, 403), ("remoteIpBlocks", 403, 200)]
)
async def test_addresses_are_of_the_peer_or_of_the_client_that_it_speaks_for(
    field: str, of_peer: int, of_client: int, scene: Scene
) -> None:
    """Scenario 61: at a gateway behind one trusted proxy."""
    echo = await scene.echo("v1")
    router = await scene.router(
        metadata={"PROXY_CONFIG": {"gatewayTopology": {"numTrustedProxies": 1}}}
    )
    port = scene.port()
    service = (
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n"
        "metadata: {name: t, namespace: b}\nspec: {hosts: [t.b.svc.cluster.local], "
        "location: MESH_INTERNAL, resolution: STATIC, "
        f"ports: [{{number: 80, name: http, protocol: HTTP, targetPort: {echo.port}}}], "
        f"endpoints: [{{address: {echo.address}}}]}}\n"
    )
    await scene.apply(
        service_t=service,
        gw=gateway(server("HTTP", port, "*")),
        vs=virtual_service("a.example", http=[{"route": to("t.b.svc.cluster.local")}]),
    )

    async def status(block: str) -> int:
        spec = f"{{rules: [{{from: [{{source: {{{field}: [{block}]}}}}]}}]}}"
        await scene.apply(allow=policy(spec))
        headers = {"Host": "a.example", "X-Forwarded-For": "192.0.2.7"}
        return (await router.get(f"http://a.example:{port}/", headers=headers)).status

    assert await status("127.0.0.0/8") == of_peer
    assert await status("192.0.2.0/24") == of_client


async def test_policy_for_a_gateway_does_not_touch_sidecars(scene: Scene) -> None:
    """Scenario 63."""
    found = await guarded_service(scene)
    ref = "{group: gateway.networking.k8s.io, kind: Gateway, name: s}"
    await scene.apply(deny=policy(f"{{action: DENY, targetRefs: [{ref}], rules: [{{}}]}}"))
    assert (await found.call()).status == 200
    await scene.apply(deny=policy("{action: DENY, rules: [{}]}"))
    await becomes(call(found), 403)


async def test_callers_of_an_alias_of_the_trust_domain_are_those_of_the_mesh(
    scene: Scene,
) -> None:
    found = await guarded_service(scene)
    alias = C.replace("cluster.local", "old.example")
    rule = f"{{from: [{{source: {{principals: [{alias}]}}}}]}}"
    await scene.apply(allow=policy(f"{{rules: [{rule}]}}"))
    assert (await found.call()).status == 403
    await scene.apply(
        mesh_config=(
            "apiVersion: mesh.istio.io/v1alpha1\nkind: MeshConfig\n"
            "spec: {trustDomainAliases: [old.example]}\n"
        )
    )
    await becomes(call(found), 200)


async def test_edits_of_policies_are_enforced_and_none_is_refused(scene: Scene) -> None:
    found = await guarded_service(scene)
    for number in range(10):
        allowed, denied = f"/{number}", f"/{number + 1}"
        rule = f"{{to: [{{operation: {{paths: ['{allowed}']}}}}]}}"
        await scene.apply(allow=policy(f"{{rules: [{rule}]}}"))
        assert (await found.plain(allowed), await found.plain(denied)) == (200, 403)
    assert scene.refused() == []
