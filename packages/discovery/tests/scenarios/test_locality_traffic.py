"""Localities and priorities, seen in traffic."""

from collections import Counter

from destination_rules import policy
from planes import eventually
from scenarios import Echo, MeshEnvoy, Scene

SERVICE = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: s, namespace: b}}
spec:
  hosts: [s.b.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{{number: 80, name: http, protocol: HTTP, targetPort: {port}}}]
  endpoints:
  - {{address: {near}, locality: r1/z1, labels: {{version: near}}}}
  - {{address: {zone}, locality: r1/z2, labels: {{version: zone}}}}
  - {{address: {far}, locality: r2/z1, labels: {{version: far}}}}
"""
DETECTS = (
    "outlierDetection: {consecutive5xxErrors: 1, consecutiveGatewayErrors: 1, interval: 100ms, "
    "baseEjectionTime: 60s, maxEjectionPercent: 100}"
)


async def places(scene: Scene) -> tuple[MeshEnvoy, dict[str, Echo]]:
    """Start an endpoint in each of three places, and a client in r1/z1."""
    echoes = {name: await scene.echo(name) for name in ("near", "zone", "far")}
    await scene.apply(
        service=SERVICE.format(
            port=echoes["near"].port, **{name: each.address for name, each in echoes.items()}
        )
    )
    client = await scene.sidecar(metadata={"LOCALITY": {"region": "r1", "zone": "z1"}})
    return client, echoes


async def asked(client: MeshEnvoy, times: int = 12) -> Counter[str]:
    return Counter([(await client.get("http://s.b/")).version for _ in range(times)])


async def test_the_nearest_endpoints_are_used_until_they_fail(scene: Scene) -> None:
    client, echoes = await places(scene)
    assert set(await asked(client, 24)) == {"near", "zone", "far"}

    await scene.apply(rule=policy(f"{{{DETECTS}}}"))

    for failing, expected in (("", "near"), ("near", "zone"), ("zone", "far")):
        if failing:
            echoes[failing].answer(status=503)

        async def all_there(wanted: str = expected) -> bool:
            return set(await asked(client, 4)) == {wanted}

        await eventually(all_there, what=f"all requests at {expected}")


async def test_requests_are_shared_among_localities_as_a_rule_says(scene: Scene) -> None:
    client, _ = await places(scene)
    shares = "{'r1/z1/*': 70, 'r1/z2/*': 30}"
    distribute = f"localityLbSetting: {{distribute: [{{from: r1/*, to: {shares}}}]}}"
    await scene.apply(rule=policy(f"{{loadBalancer: {{simple: ROUND_ROBIN, {distribute}}}}}"))

    counts = await asked(client, 200)

    assert set(counts) == {"near", "zone"}
    assert 130 <= counts["near"] <= 150


async def test_a_region_takes_over_before_others(scene: Scene) -> None:
    client, echoes = await places(scene)
    failover = "localityLbSetting: {failover: [{from: r1, to: r2}]}"
    await scene.apply(rule=policy(f"{{loadBalancer: {{{failover}}}, {DETECTS}}}"))
    for name in ("near", "zone"):
        echoes[name].answer(status=503)

    async def all_far() -> bool:
        return set(await asked(client, 4)) == {"far"}

    await eventually(all_far, what="all requests in the other region")


async def test_endpoints_with_the_clients_labels_come_first(scene: Scene) -> None:
    client, echoes = await places(scene)
    priority = "localityLbSetting: {failoverPriority: ['version=far']}"
    await scene.apply(rule=policy(f"{{loadBalancer: {{{priority}}}, {DETECTS}}}"))
    assert set(await asked(client)) == {"far"}

    echoes["far"].answer(status=503)

    async def others() -> bool:
        return set(await asked(client)) == {"near", "zone"}

    await eventually(others, what="requests at the others")


async def test_without_locality_settings_all_endpoints_are_used(scene: Scene) -> None:
    client, _ = await places(scene)
    off = "localityLbSetting: {enabled: false}"
    await scene.apply(rule=policy(f"{{loadBalancer: {{simple: ROUND_ROBIN, {off}}}, {DETECTS}}}"))

    assert await asked(client) == {"near": 4, "zone": 4, "far": 4}
