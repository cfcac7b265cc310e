"""Certificates of a short life, renewed under constant load for a while."""

import asyncio
import math
from dataclasses import dataclass
from pathlib import Path

from mesh_e2e._certificates import mesh_client_context, presented_serial
from mesh_e2e._envoy import envoy_serials
from mesh_e2e._load import LoadReport, Target, constant_load
from mesh_e2e._meshes import mesh_of
from mesh_testkit import until

MESH = """\
    mesh: {{certificateLifetime: {lifetime}s}}
    workloads:
      - {{name: backend, ports: [{{port: 8080}}], command: ECHO}}
      - {{name: frontend}}
"""
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationOutcome:
    """What was seen.

    presented: the serials that the backend's Envoy presented in handshakes, in their order.
    issued: the serials that the backend's agent held, in their order.
    """

    through_envoys: LoadReport
    handshakes: LoadReport
    presented: list[str]
    issued: list[str]


async def rotate(
    directory: Path,
    *,
    lifetime_s: int,
    seconds: float,
    rate: float = 100,
    enough: float = math.inf,
) -> RotationOutcome:
    """Run a mesh of two and load it: through both Envoys, and with a new TLS handshake each.

    enough: end already when so many certificates were presented.
    """
    presented: list[str] = []
    issued: list[str] = []
    async with mesh_of(MESH.format(lifetime=lifetime_s), directory) as mesh:
        backend = mesh.workload("backend")
        outbound = mesh.workload("frontend").instance.addresses.outbound
        inbound = backend.instance.addresses.inbound
        identity = "spiffe://cluster.local/ns/default/sa/frontend"
        context = mesh_client_context(mesh, directory / "client", identity)
        envoys = Target(host=outbound, port=15002, url="http://backend:8080/", authority="backend")
        direct = Target(host=inbound, port=8080, tls=context)
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        async with (
            constant_load(envoys, rate_per_s=rate) as through_envoys,
            constant_load(direct, rate_per_s=rate / 5, workers=4) as handshakes,
        ):
            while loop.time() < end and len(presented) < enough:
                _note(issued, backend.status.serial if backend.status is not None else None)
                _note(presented, await presented_serial(inbound, 8080, context))
                await asyncio.sleep(_LOOK_S)
        assert presented[-1] in await envoy_serials(backend)
        # The status that is looked at may be older than the handshake.
        await until(
            lambda: backend.status is not None and backend.status.serial == presented[-1],
            what=f"the agent to tell of {presented[-1]}",
            seen=lambda: backend.status,
        )
        _note(issued, presented[-1])
        return RotationOutcome(
            through_envoys=through_envoys.report,
            handshakes=handshakes.report,
            presented=presented,
            issued=issued,
        )


def _note(seen: list[str], serial: str | None) -> None:
    if serial is not None and (not seen or seen[-1] != serial):
        seen.append(serial)
