"""An agent whose first control plane is dead, beside a mesh whose control plane works."""

import json
from pathlib import Path

import pytest

from mesh_e2e import (
    ROOT,
    TOKEN,
    environment_beside,
    has_all,
    mesh_of,
    put,
    run_command,
    running_agent,
    until_status,
)

MESH = """\
    mesh: {certificateLifetime: 1h, drain: 1s}
    workloads:
      - {name: backend, ports: [{port: 8080}], command: ECHO}
"""


@pytest.mark.slow
async def test_an_agent_is_ready_by_its_second_control_plane_and_says_so(tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    async with mesh_of(MESH, tmp_path) as mesh:
        given = mesh.state.workload("backend")
        put(alone, ROOT, (given / ROOT).read_bytes())
        put(alone, TOKEN, (given / TOKEN).read_bytes())
        environment = environment_beside(mesh)
        proxy = json.loads(environment["PROXY_CONFIG"])
        works = proxy["discoveryAddress"]
        dead = f"127.1.2.3:{works.rpartition(':')[2]}"  # which no part of the mesh listens at
        environment |= {
            "PROXY_CONFIG": json.dumps({**proxy, "discoveryAddress": dead}),
            "CA_ADDR": works,
            "MESH_AGENT_FURTHER_CONTROL_PLANES": works,
        }
        async with running_agent(alone, environment) as agent:
            status = await until_status(agent, has_all, what="all of it")
            xds = status["xds"]
            assert xds["control_plane"] == works
            first, second = xds["control_planes"]
            assert (first["address"], first["healthy"]) == (dead, False)
            assert (second["address"], second["healthy"]) == (works, True)
            code, shown, _ = await run_command(
                *("mesh_agent_cli", "status", "--address", agent.address),
                environment={},
                directory=tmp_path,
            )
            assert code == 0
            assert f"{dead}, FAILS" in shown
