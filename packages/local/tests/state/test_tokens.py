import asyncio
from pathlib import Path

import jwt

from mesh_ca import TokenIssuer
from mesh_lifecycle.testing import ManualClock
from mesh_local import MeshPlan
from mesh_local.state._folder import TOKEN, opened
from mesh_local.state._tokens import LIFETIME, keep_tokens_fresh, write_tokens


def test_each_workload_gets_a_token_for_its_service_account(plan: MeshPlan, tmp_path: Path) -> None:
    with opened(tmp_path / "state") as state:
        write_tokens(TokenIssuer(state.tokens, "mesh-local"), plan.instances, state)
        file = state.workload("frontend") / TOKEN
        claims = jwt.decode(file.read_text(), options={"verify_signature": False})
    assert claims["sub"] == "system:serviceaccount:shop:web"
    assert claims["aud"] == ["istio-ca"]
    assert file.stat().st_mode & 0o777 == 0o600


async def test_tokens_are_renewed_at_half_of_their_lifetime(plan: MeshPlan, tmp_path: Path) -> None:
    clock = ManualClock()
    with opened(tmp_path / "state") as state:
        issuer = TokenIssuer(state.tokens, "mesh-local", clock=clock.now)
        write_tokens(issuer, plan.instances, state)
        file = state.workload("visitor") / TOKEN
        first = file.read_text()
        task = asyncio.create_task(
            keep_tokens_fresh(issuer, lambda: plan.instances, state, clock=clock)
        )
        await asyncio.sleep(0)
        assert clock.sleeping == (LIFETIME.total_seconds() / 2,)
        await clock.advance(LIFETIME.total_seconds() / 2)
        assert file.read_text() != first
        task.cancel()
        await asyncio.wait([task])
