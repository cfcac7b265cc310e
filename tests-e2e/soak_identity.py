"""Certificates of ten seconds for five minutes: every connection is a new mutual TLS handshake.

    python tests-e2e/soak_identity.py [--lifetime 10] [--seconds 300] [--rate 50]

Requests go through two Envoys: to an HTTP port, where Envoy keeps its connections, and to a TCP
port, where each new connection of the caller is a new handshake between the Envoys. Prints what
happened, and exits 1 if a request failed, or if a certificate that was issued to the serving
workload was never presented.
"""

import argparse
import asyncio
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))

from mesh_e2e import (
    LoadReport,
    Target,
    constant_load,
    issued_to,
    mesh_client_context,
    mesh_of,
    presented_serial,
    short_lived,
)

LOOK_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    http: LoadReport
    handshakes: LoadReport
    presented: list[str]
    issued: list[str]

    @property
    def unseen(self) -> list[str]:
        """The serials that no handshake presented; the newest may have come too late for that."""
        return [serial for serial in self.issued[:-1] if serial not in self.presented]


async def soak(directory: Path, *, lifetime_s: int, seconds: float, rate: float) -> Outcome:
    presented: list[str] = []
    async with mesh_of(short_lived(lifetime_s), directory) as mesh:
        backend = mesh.workload("backend")
        inbound = backend.instance.addresses.inbound
        outbound = mesh.workload("frontend").instance.addresses.outbound
        looker = mesh_client_context(
            mesh, directory / "client", "spiffe://cluster.local/ns/default/sa/looker"
        )
        http = Target(host=outbound, port=15002, url="http://backend:8080/", authority="backend")
        tcp = Target(host=outbound, port=9000)
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        async with (
            constant_load(http, rate_per_s=rate) as through_http,
            constant_load(tcp, rate_per_s=rate) as through_tcp,
        ):
            while loop.time() < end:
                serial = await presented_serial(inbound, 8080, looker)
                if serial not in presented[-1:]:
                    presented.append(serial)
                await asyncio.sleep(LOOK_S)
        return Outcome(
            http=through_http.report,
            handshakes=through_tcp.report,
            presented=presented,
            issued=[each.serial for each in issued_to(mesh, backend)],
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lifetime", type=int, default=10, help="seconds a certificate lives")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--rate", type=float, default=50, help="requests a second")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        run = soak(
            Path(directory),
            lifetime_s=options.lifetime,
            seconds=options.seconds,
            rate=options.rate,
        )
        outcome = asyncio.run(run)
    failures = [*outcome.http.failures, *outcome.handshakes.failures]
    lines = [
        f"HTTP through two Envoys: {outcome.http.summary()}",
        f"TCP through two Envoys:  {outcome.handshakes.summary()}",
        f"requests: {outcome.http.answered + outcome.handshakes.answered + len(failures)}",
        f"failures: {len(failures)}",
        f"serials issued: {len(outcome.issued)}",
        f"serials presented: {len(outcome.presented)}",
        f"serials never seen: {len(outcome.unseen)}",
        *(f"  {serial}" for serial in outcome.presented),
        *(f"never seen: {serial}" for serial in outcome.unseen),
        *(f"failure: {failure.what}" for failure in failures[:20]),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if failures or outcome.unseen or not outcome.presented else 0


if __name__ == "__main__":
    sys.exit(main())
