"""Readiness by the workload's certificate: an agent without a valid one is not ready.

Istio's agent stays ready then, and its workload takes requests that none of its peers can make and
makes none that they take. Here the platform is notified, so that it sends requests elsewhere.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import certclient
from mesh_lifecycle import Condition, in_background


@asynccontextmanager
async def certificate_condition(
    certificates: certclient.Certificates | None, ready: Condition
) -> AsyncIterator[None]:
    """Keep `ready` true or false while the block runs.

    certificates: None where another process serves Envoy its certificate. Then it is true: Envoy
    does not get its configuration without a certificate, and that is watched.
    """
    if certificates is None:
        ready.set()
        yield
        return
    async with in_background(watch_certificate(certificates, ready), name="certificate"):
        yield


async def watch_certificate(certificates: certclient.Certificates, ready: Condition) -> None:
    """Set `ready` while there is a valid certificate, unset it with the reason; never returns."""
    had_one = False
    async for status in certificates.statuses():
        if status.certificate is not None:
            had_one = True
            ready.set()
        else:
            ready.unset(_reason(status, had_one=had_one))


def _reason(status: certclient.RotationStatus, *, had_one: bool) -> str:
    said = "it expired and was not renewed" if had_one else "there is none yet"
    return f"{said}: {status.last_error}" if status.last_error else said
