"""An agent of its own beside those of a mesh, for the same service account as its backend."""

from collections.abc import Callable, Mapping
from typing import Any

from mesh_e2e._agents import Agent, own_address
from mesh_e2e._load import Unanswered
from mesh_local import RunningMesh
from mesh_testkit import until


def environment_beside(mesh: RunningMesh) -> dict[str, str]:
    """What the mesh's own agent is told, for another of the same service account."""
    (spec,) = (each.spec for each in mesh.children if each.spec.name == "backend agent")
    return {
        **spec.environment,
        "POD_NAME": "alone",
        "INSTANCE_IP": own_address(41),
        "MESH_AGENT_BIND_ADDRESS": own_address(41),
        "DNS_PROXY_ADDR": f"{own_address(41)}:{mesh.plan.dns_port}",
        "ISTIO_META_APP_ADDRESS": own_address(42),
        "ISTIO_META_OUTBOUND_BIND_ADDRESS": own_address(43),
    }


async def until_status(
    agent: Agent, wanted: Callable[[Mapping[str, Any]], bool], *, what: str
) -> Mapping[str, Any]:
    """Wait until the agent's status is as wanted; return it."""
    seen: list[Mapping[str, Any]] = []

    async def is_so() -> bool:
        assert agent.process.returncode is None, "the agent has ended"
        try:
            seen.append(await agent.status())
        except (OSError, Unanswered):
            return False
        return wanted(seen[-1])

    await until(is_so, what=what, seen=lambda: seen[-1:])
    return seen[-1]


def has_all(status: Mapping[str, Any]) -> bool:
    return bool(
        status["ready"]
        and status["xds"]["connected"]
        and status["certificate"].get("serial")
        and status["certificate"]["last_error"] is None
    )
