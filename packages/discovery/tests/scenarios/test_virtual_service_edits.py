"""VirtualServices that are edited while requests come."""

import asyncio
from collections import Counter

from scenarios import Scene
from virtual_services import VERSIONS, only, to, virtual_service


async def test_edits_lose_no_request(scene: Scene) -> None:
    reviews = await scene.reviews()
    await scene.apply(rule=VERSIONS, vs=virtual_service(only("v1")))
    found: Counter[int] = Counter()
    done = asyncio.Event()

    async def ask() -> None:
        while not done.is_set():
            found[(await reviews.client.get("http://s.b/")).status] += 1

    asking = [asyncio.create_task(ask(), name=f"requests {at}") for at in range(3)]
    try:
        for at in range(12):
            # A subset and the route to it come together, and go together.
            subset = f"edit{at}"
            await scene.apply(
                rule=VERSIONS.rstrip("\n") + f"\n  - {{name: {subset}, labels: {{version: v2}}}}\n",
                vs=virtual_service(f"route: [{to(subset, weight=1)}, {to('v1', weight=1)}]"),
            )
    finally:
        done.set()
        await asyncio.gather(*asking)

    log = await reviews.client.access_log()
    failed = [each for each in log if each["response_code"] != 200]
    assert failed == []
    assert set(found) == {200}
    assert found[200] > 100


async def test_one_that_envoy_would_refuse_does_not_stop_the_others(scene: Scene) -> None:
    reviews = await scene.reviews()
    others = [
        virtual_service("directResponse: {status: 200}", name=f"o{at}", hosts=f"o{at}.example")
        for at in range(50)
    ]
    good = virtual_service("directResponse: {status: 418}")
    await scene.apply(vs=good, others="---\n".join(others))

    bad = virtual_service(
        "headers: {response: {set: {x: 100%}}}, directResponse: {status: 200}", name="bad"
    )
    edited = "---\n".join(each.replace("status: 200", "status: 201") for each in others)
    problems = await scene.apply(mistaken=True, bad=bad, others=edited)

    assert [each.field for each in problems] == ["spec.http[0].headers.response.set.x"]
    assert (await reviews.client.get("http://s.b/")).status == 418
    for at in (0, 25, 49):
        assert (await reviews.client.get(f"http://o{at}.example/")).status == 201
