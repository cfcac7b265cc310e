"""The workloads' tokens, by which agents prove to the control plane's CA who they are.

They are written before anything starts and renewed long before they expire.
"""

from datetime import timedelta

from mesh_ca import TokenIssuer
from mesh_lifecycle import Clock
from mesh_local.config._plan import MeshPlan
from mesh_local.state._folder import TOKEN, StateFolder, write_file

JWT_ISSUER = "mesh-local"
JWT_AUDIENCE = "istio-ca"
LIFETIME = timedelta(hours=1)


def write_tokens(issuer: TokenIssuer, plan: MeshPlan, state: StateFolder) -> None:
    """Issue every workload a new token."""
    for instance in plan.instances:
        token = issuer.issue(
            instance.workload.namespace, instance.service_account, JWT_AUDIENCE, LIFETIME
        )
        write_file(state.workload(instance.name) / TOKEN, token)


async def keep_tokens_fresh(
    issuer: TokenIssuer, plan: MeshPlan, state: StateFolder, *, clock: Clock
) -> None:
    """Renew the tokens at half of their lifetime; agents read them at each use. Never returns."""
    while True:
        await clock.sleep(LIFETIME.total_seconds() / 2)
        write_tokens(issuer, plan, state)
