"""The bookshop as its README walks through it: versions, weights, faults, a failover, access."""

import asyncio
import re
import shutil
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from mesh_local import RunningMesh, load_mesh_file, prepared, running_mesh
from mesh_testkit import until

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "bookshop"
PAGE = "http://127.79.0.1:8080/"
READY_S = 120.0


class Bookshop:
    """The running example, seen by a browser."""

    def __init__(self, mesh: RunningMesh, rules: Path) -> None:
        self.mesh = mesh
        self._rules = rules

    def take_step(self, name: str) -> None:
        """Put the rules of a step in place of those of the step before."""
        new = self._rules / "step.new"
        shutil.copy(EXAMPLE / "steps" / f"{name}.yaml", new)
        new.rename(self._rules / "step.yaml")

    async def page(self, **headers: str) -> str:
        return await _get(PAGE, headers)

    async def reviews(self, number: int, **headers: str) -> Counter[str]:
        """Return how many of so many pages have their reviews from each workload."""
        found: Counter[str] = Counter()
        for _ in range(number):
            found.update(re.findall(r"reviews by ([\w-]+)", await self.page(**headers)))
        return found


async def run_discovery(*arguments: str) -> tuple[int | None, str]:
    """Run a command of the control plane; return its exit code and all that it says."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "mesh_discovery", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode, output.decode()


async def _get(url: str, headers: Mapping[str, str]) -> str:
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers=headers, timeout=aiohttp.ClientTimeout(20)) as answer,
    ):
        return await answer.text()


@pytest.fixture(autouse=True)
def _test_leaves_nothing() -> None:
    """Leave it to the check of the module whether anything is left.

    The mesh runs in this process over all tests, and may be asking an agent for its state when one
    of them ends.
    """


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shop(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bookshop]:
    home = tmp_path_factory.mktemp("bookshop")
    shutil.copytree(EXAMPLE, home, dirs_exist_ok=True)
    file = home / "mesh.yaml"
    text = file.read_text().replace("python3", sys.executable)
    file.write_text(text.replace("{ports: [8080]}", "{ports: [8080], address: 127.79.0.1}"))
    with prepared(load_mesh_file(file), home / "state") as (plan, state):
        async with running_mesh(plan, state) as mesh:
            await mesh.wait_ready(READY_S)
            yield Bookshop(mesh, home / "rules")


@pytest.mark.asyncio(loop_scope="module")
class TestWalk:
    """The steps of the README, one after the other."""

    async def test_each_version_answers_without_rules(self, shop: Bookshop) -> None:
        async def all_seen() -> bool:
            return set(await shop.reviews(12)) == {"reviews-v1", "reviews-v2", "reviews-v3"}

        await until(all_seen, what="all versions")

    async def test_check_and_status_are_calm_while_all_is_well(self, shop: Bookshop) -> None:
        mesh = shop.mesh
        config = (
            "--config-dir",
            str(mesh.state.config),
            "--mesh-config",
            str(mesh.state.mesh_config),
        )
        said = await run_discovery("check", *config)
        assert said[0] == 0, said
        # Sidecars and the gateway, by Envoy's own port and by the agent's.
        for each in mesh.plan.instances:
            for port in (15000, 15020):
                against = f"{each.addresses.inbound}:{port}"
                said = await run_discovery("check", *config, "--against", against)
                assert said[0] == 0, said
        address = f"{mesh.plan.block.control_plane}:15014"
        count = len(mesh.plan.instances)
        assert await run_discovery("status", "--monitoring-addr", address) == (
            0,
            f"{count} proxies connected, everything is as configured\n",
        )

    async def test_one_version_gets_all(self, shop: Bookshop) -> None:
        shop.take_step("1-one-version")

        async def only_one() -> bool:
            return await shop.reviews(10) == {"reviews-v1": 10}

        await until(only_one, what="one version")

    async def test_weights_share_requests(self, shop: Bookshop) -> None:
        shop.take_step("2-weights")

        async def shared() -> bool:
            found = await shop.reviews(100)
            return set(found) == {"reviews-v1", "reviews-v3"} and found["reviews-v1"] > 75

        await until(shared, what="shares by weight")

    async def test_a_header_chooses_the_version(self, shop: Bookshop) -> None:
        shop.take_step("3-by-header")

        async def chosen() -> bool:
            jason = await shop.reviews(10, reader="jason")
            return jason == {"reviews-v2": 10} and await shop.reviews(10) == {"reviews-v1": 10}

        await until(chosen, what="versions by reader")

    async def test_faults_are_seen_on_the_page(self, shop: Bookshop) -> None:
        shop.take_step("4-faults")

        async def missing() -> bool:
            return "No stars: status 500" in await shop.page()

        await until(missing, what="a page without stars")

    async def test_ratings_fail_over_to_the_south_and_no_page_is_without_stars(
        self, shop: Bookshop
    ) -> None:
        shop.take_step("5-failover")

        async def near() -> bool:
            return all([await _stars(shop) == "ratings-north" for _ in range(10)])

        await until(near, what="stars from the north")
        north = shop.mesh.workload("ratings-north").instance.addresses.app
        await _get(f"http://{north}:9080/fail?600", {})
        answers = [await _stars(shop) for _ in range(20)]
        assert None not in answers
        assert answers[-1] == "ratings-south"

    async def test_ratings_are_for_the_reviews_alone(self, shop: Bookshop) -> None:
        shop.take_step("6-access")
        page = shop.mesh.workload("page").instance.addresses.outbound

        async def denied() -> bool:
            text = await _get(f"http://{page}:9080/", {"Host": "ratings"})
            return text == "RBAC: access denied"

        await until(denied, what="the page being denied")
        assert await _stars(shop) is not None


async def _stars(shop: Bookshop) -> str | None:
    found = re.search(r"stars by ([\w-]+)", await shop.page())
    return found[1] if found is not None else None
