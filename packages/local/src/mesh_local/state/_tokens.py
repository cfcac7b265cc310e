"""The workloads' tokens, by which agents prove to the control plane's CA who they are.

They are written before anything starts and renewed long before they expire.
"""

from collections.abc import Callable, Iterable
from datetime import timedelta

from mesh_ca import TokenIssuer
from mesh_lifecycle import Clock
from mesh_local.config._plan import Instance
from mesh_local.state._folder import TOKEN, StateFolder, write_file

JWT_ISSUER = "mesh-local"
JWT_AUDIENCE = "istio-ca"
LIFETIME = timedelta(hours=1)


def write_tokens(issuer: TokenIssuer, instances: Iterable[Instance], state: StateFolder) -> None:
    """Issue replicas new tokens."""
    for instance in instances:
        token = issuer.issue(
            instance.workload.namespace, instance.service_account, JWT_AUDIENCE, LIFETIME
        )
        write_file(state.workload(instance.name) / TOKEN, token)


async def keep_tokens_fresh(
    issuer: TokenIssuer,
    instances: Callable[[], Iterable[Instance]],
    state: StateFolder,
    *,
    clock: Clock,
) -> None:
    """Renew the tokens at half of their lifetime; agents read them at each use. Never returns."""
    while True:
        await clock.sleep(LIFETIME.total_seconds() / 2)
        write_tokens(issuer, instances(), state)
