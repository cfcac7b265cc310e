from pathlib import Path

import pytest

from mesh_lifecycle import in_background
from mesh_local import MeshPlan, StateFolder
from mesh_local.state._roots import keep_roots_fresh, write_roots
from mesh_testkit import until


def held(plan: MeshPlan, state: StateFolder) -> set[bytes]:
    return {
        (state.workload(each.name) / "var/run/secrets/istio/root-cert.pem").read_bytes()
        for each in plan.instances
    }


async def test_workloads_get_the_roots_that_the_authority_hands_out_now(
    plan: MeshPlan, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = StateFolder(tmp_path)
    state.ca.mkdir()
    file = state.ca / "root-cert.pem"
    file.write_bytes(b"old")
    write_roots(b"old", plan.instances, state)

    async def are_held(roots: bytes) -> None:
        await until(lambda: held(plan, state) == {roots}, what=f"{roots!r} are handed on")

    async with in_background(keep_roots_fresh(lambda: plan.instances, state), name="roots"):
        for roots in (b"new, old", b"new"):
            file.write_bytes(roots)
            await are_held(roots)
        file.unlink()
        await until(
            lambda: "roots can't be copied to the workloads" in caplog.messages,
            what="that there are none is reported",
        )
        assert held(plan, state) == {b"new"}
        file.write_bytes(b"newest")
        await are_held(b"newest")
