"""The audit log: one record for each certificate that was issued."""

import logging

from mesh_ca.authority._authority import Issued
from mesh_ca.callers._authenticator import Caller

audit = logging.getLogger("mesh_ca.audit")


def write_audit_record(issued: Issued, caller: Caller, peer: str) -> None:
    """Log a certificate that was issued, for which caller and by which proof."""
    if not audit.isEnabledFor(logging.INFO):
        return
    facts = {
        "serial": f"{issued.serial:x}",
        "identities": issued.identities,
        "authenticated_by": caller.method,
        "peer": peer,
        "not_before": issued.not_before.isoformat(),
        "not_after": issued.not_after.isoformat(),
        "public_key_sha256": issued.public_key_sha256,
    }
    # As `audit.info` does, without its search of the call stack for this line: under load that
    # takes longer than the rest of a record.
    audit.handle(
        audit.makeRecord(
            audit.name, logging.INFO, __file__, 0, "certificate issued", (), None, extra=facts
        )
    )
