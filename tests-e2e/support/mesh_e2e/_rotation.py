"""Certificates of a short life, renewed under constant load for a while."""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mesh_e2e._certificates import mesh_client_context, presented_serial
from mesh_e2e._envoy import envoy_serials
from mesh_e2e._identity import issued_to
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
    issued: the serials that the authority issued to the backend's agent, in their order.
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
    environ: Mapping[str, str] | None = None,
) -> RotationOutcome:
    """Run a mesh of two and load it: through both Envoys, and with a new TLS handshake each.

    enough: end already when so many certificates were presented. environ: see `mesh_of`.
    """
    presented: list[str] = []
    async with mesh_of(MESH.format(lifetime=lifetime_s), directory, environ=environ) as mesh:
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
                _note(presented, await presented_serial(inbound, 8080, context))
                await asyncio.sleep(_LOOK_S)

        async def all_agree() -> bool:
            # Looked at one after the other: the next rotation may come in between.
            serial = await presented_serial(inbound, 8080, context)
            _note(presented, serial)
            held = serial in await envoy_serials(backend)
            return held and backend.status is not None and backend.status.serial == serial

        await until(
            all_agree,
            what="Envoy and its agent to tell of what is presented",
            seen=lambda: (presented[-1:], backend.status),
        )
        issued = [each.serial for each in issued_to(mesh, backend)]
        return RotationOutcome(
            through_envoys=through_envoys.report,
            handshakes=handshakes.report,
            presented=presented,
            issued=issued,
        )


def _note(seen: list[str], serial: str) -> None:
    if not seen or seen[-1] != serial:
        seen.append(serial)
