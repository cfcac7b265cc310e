"""What workloads, their Envoys and the certificate authority say of certificates and roots."""

import base64
import re
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from mesh_e2e._envoy import admin
from mesh_local import RunningMesh, RunningWorkload

_ISSUED = re.compile(r"certificate issued\b.*")
_SERIAL = re.compile(r"\bserial\W+([0-9a-f]+)")
_NOT_AFTER = re.compile(r"\bnot_after\W+([-+:.T0-9]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """A line in the authority's log: a certificate that it issued to a workload."""

    serial: str
    not_after: datetime
    line: str


def issued_to(mesh: RunningMesh, workload: RunningWorkload) -> tuple[Audited, ...]:
    """Return what the authority's log says that it issued to a workload, in its order."""
    spiffe_id = workload.instance.spiffe_id
    log = mesh.control_plane.spec.log.read_text()
    return tuple(
        Audited(serial=serial[1], not_after=datetime.fromisoformat(end[1]), line=line)
        for line in _ISSUED.findall(log)
        if re.search(rf"{re.escape(spiffe_id)}(?![\w-])", line)
        and (serial := _SERIAL.search(line)) is not None
        and (end := _NOT_AFTER.search(line)) is not None
    )


async def trusted_roots(workload: RunningWorkload) -> tuple[x509.Certificate, ...]:
    """Return the roots that a workload's Envoy was given; none before it was."""
    dump = await admin(workload, "/config_dump?resource=dynamic_active_secrets")
    for secret in dump.get("configs", ()):
        if secret["name"] == "ROOTCA":
            roots = secret["secret"]["validation_context"]["trusted_ca"]["inline_bytes"]
            return tuple(x509.load_pem_x509_certificates(base64.b64decode(roots)))
    return ()


def is_below(certificate: x509.Certificate, root: x509.Certificate) -> bool:
    """Whether a root has signed a certificate; roots of one mesh may all bear the same name."""
    try:
        certificate.verify_directly_issued_by(root)
    except (ValueError, InvalidSignature):
        return False
    return True
