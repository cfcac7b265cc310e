"""Readiness follows the workload's identity: without a valid certificate there is none.

Istio's agent stays ready then, and its workload takes requests that none of its peers can make and
makes none that they take. Here the platform is told, so that it sends requests elsewhere.
"""

import certclient
from mesh_lifecycle import Condition


async def watch_identity(certificates: certclient.Certificates, held: Condition) -> None:
    """Keep `held` as it is with the certificate, with the reason where there is none; for ever."""
    had_one = False
    async for status in certificates.statuses():
        if status.certificate is not None:
            had_one = True
            held.set()
        else:
            held.unset(_reason(status, had_one=had_one))


def _reason(status: certclient.RotationStatus, *, had_one: bool) -> str:
    said = "it expired and was not renewed" if had_one else "there is none yet"
    return f"{said}: {status.last_error}" if status.last_error else said
