"""When a certificate expires, for every loop that withdraws one that was not renewed."""

import logging

from certclient.x509._certificate import Certificate
from mesh_lifecycle import Clock, shows_fields

log = logging.getLogger("certclient.feed")

CHECK_INTERVAL_S = 3.0
"""How often the wall clock is read. A clock that was set, or a machine that slept, is noticed
within this time. Each reading wakes a process that has nothing else to do for hours."""


def remaining_s(certificate: Certificate | None, clock: Clock) -> float:
    """Return the seconds until the certificate expires, below 0 after that; 0 without one."""
    return 0.0 if certificate is None else certificate.not_after.timestamp() - clock.now()


def log_expired(certificate: Certificate, *, reason: str | None) -> None:
    """Log that the workload has no certificate any more."""
    message = "certificate expired and was not renewed, the workload has no identity"
    if reason and not shows_fields(log):
        message = f"{message}: {reason}"
    log.error(
        message,
        extra={
            "spiffe_id": str(certificate.spiffe_id),
            "serial": f"{certificate.serial:x}",
            "reason": reason,
        },
    )
