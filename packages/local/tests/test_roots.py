from pathlib import Path

from mesh_lifecycle import in_background
from mesh_lifecycle.testing import ManualClock
from mesh_local import MeshPlan, StateFolder
from mesh_local._roots import keep_roots_fresh, write_roots


def held(plan: MeshPlan, state: StateFolder) -> set[bytes]:
    return {
        (state.workload(each.name) / "var/run/secrets/istio/root-cert.pem").read_bytes()
        for each in plan.instances
    }


async def test_workloads_get_the_roots_that_the_authority_hands_out_now(
    plan: MeshPlan, tmp_path: Path
) -> None:
    state, clock = StateFolder(tmp_path), ManualClock()
    state.ca.mkdir()
    file = state.ca / "root-cert.pem"
    file.write_bytes(b"old")
    write_roots(b"old", plan, state)
    async with in_background(keep_roots_fresh(plan, state, clock=clock), name="roots"):
        await clock.advance(1)
        file.write_bytes(b"new, old")
        await clock.advance(1)
        assert held(plan, state) == {b"new, old"}
        file.unlink()
        await clock.advance(1)
        assert held(plan, state) == {b"new, old"}
        file.write_bytes(b"new")
        await clock.advance(1)
        assert held(plan, state) == {b"new"}
