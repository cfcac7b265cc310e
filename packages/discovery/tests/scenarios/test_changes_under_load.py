"""Rules that change while requests are under way, and rules of which one is wrong."""

import asyncio
from collections import Counter

import pytest

from scenarios import Scene

SUBSETS = """\
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: s, namespace: b}
spec:
  host: s
  subsets:
  - {name: v1, labels: {version: v1}}
  - {name: v2, labels: {version: v2}}
"""


def routes(*shares: tuple[str, int]) -> str:
    listed = ", ".join(
        f"{{destination: {{host: s, subset: {name}}}, weight: {weight}}}" for name, weight in shares
    )
    return (
        "apiVersion: networking.istio.io/v1\nkind: VirtualService\n"
        "metadata: {name: s, namespace: b}\n"
        f"spec: {{hosts: [s], http: [{{route: [{listed}]}}]}}\n"
    )


def of_version(version: int) -> str:
    """Return a route to a subset of its own, which comes with it."""
    subset = f"{{name: n{version}, labels: {{}}}}"
    rule = SUBSETS.replace("{name: v1, labels: {version: v1}}", subset)
    return f"{routes((f'n{version}', 1))}---\n{rule}"


@pytest.mark.slow
async def test_many_changes_under_load_fail_no_request(scene: Scene) -> None:
    """Clusters come before the routes that lead to them, and go after these."""
    reviews = await scene.reviews()
    await scene.apply(rules=of_version(0))
    statuses: Counter[int] = Counter()
    changing = True

    async def load() -> None:
        while changing:
            statuses[(await reviews.client.get("http://s.b/")).status] += 1

    async with asyncio.TaskGroup() as group:
        for number in range(4):
            group.create_task(load(), name=f"load {number}")
        for version in range(1, 25):
            await scene.apply(rules=of_version(version))
        changing = False
    assert set(statuses) == {200}
    assert statuses[200] > 100


async def test_one_rule_that_envoy_would_refuse_does_not_stop_the_others(scene: Scene) -> None:
    reviews = await scene.reviews()

    def other(number: int, text: str) -> str:
        return (
            "apiVersion: networking.istio.io/v1\nkind: VirtualService\n"
            f"metadata: {{name: o{number}, namespace: b}}\n"
            f"spec: {{hosts: [o{number}.example], http: [{{directResponse: "
            f"{{status: 200, body: {{string: {text}}}}}}}]}}\n"
        )

    good = "---\n".join(other(number, "old") for number in range(50))
    wrong = routes(("v1", 1)).replace("route: [", "redirect: {redirectCode: 305}, x: [")
    problems = await scene.apply(mistaken=True, rules=wrong, good=good)
    assert problems

    await scene.apply(mistaken=True, good=good.replace("string: old", "string: new"))
    assert (await reviews.client.get("http://s.b/")).status == 200
