"""Loads the authority of a directory, or makes a new self-signed root there.

`ca-key.pem` decides. If it is there, the four files were plugged in by an operator or generated at
an earlier start; if it is not, they are generated. A root that was generated here is certified anew
or replaced in time; files that were plugged in are only ever read.
"""

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from mesh_ca._errors import StorageError
from mesh_ca._files import (
    create_files,
    file_exists,
    finish_replacement,
)
from mesh_ca.authority._authority import Authority
from mesh_ca.authority._identity import checked_trust_domain
from mesh_ca.authority._keys import KeyType
from mesh_ca.authority._profile import whole_second
from mesh_ca.authority._serial_number import random_serial_number
from mesh_ca.authority._signer import CA_KEY
from mesh_ca.directory._own_root import (
    PRIVATE_FILES,
    RootPolicy,
    new_root_files,
)
from mesh_ca.directory._reading import is_own_root, load_signer
from mesh_ca.directory._root_changes import apply_due_steps

log = logging.getLogger("mesh_ca")

ROOT_LIFETIME = timedelta(days=3650)


def load_or_create_authority(
    directory: Path,
    *,
    trust_domain: str,
    root_lifetime: timedelta = ROOT_LIFETIME,
    root_key: KeyType = KeyType.P256,
    clock: Callable[[], float] = time.time,
) -> Authority:
    """Return the authority whose files are in `directory`.

    If there is no `ca-key.pem` yet, the directory gets a new self-signed root (mode 0700, the key
    0600); processes that start at once agree on one. `root_lifetime` and `root_key` matter then,
    and when a root that was generated here is found expired: it is certified anew, with its key.
    Raises StorageError, and IdentityError for a bad trust domain.
    """
    checked_trust_domain(trust_domain)
    finish_replacement(directory)
    if not file_exists(directory / CA_KEY):
        create_files(
            directory,
            last=CA_KEY,
            make=lambda: new_root_files(
                root_key,
                organization=trust_domain,
                serial=random_serial_number(),
                now=whole_second(clock()),
                lifetime=root_lifetime,
            ),
            private=PRIVATE_FILES,
        )
    signer = load_signer(directory)
    now = whole_second(clock())
    if now >= signer.not_after and is_own_root(directory):
        # No process ran when it was due. The new root has the old one's key.
        log.warning("root has expired, certifying it anew", extra={"directory": str(directory)})
        apply_due_steps(directory, RootPolicy(lifetime=root_lifetime), now=clock())
        signer = load_signer(directory)
    if now >= signer.not_after:
        raise StorageError(
            f"the certificates in {directory} have expired at {signer.not_after:%F %T} UTC: "
            "put valid ones there"
        )
    log.info(
        "certificate authority loaded",
        extra={
            "directory": str(directory),
            "trust_domain": trust_domain,
            "subject": signer.certificate.subject.rfc4514_string(),
            "serial": f"{signer.certificate.serial_number:x}",
            "intermediates": len(signer.intermediates_pem),
            "expires": signer.not_after.isoformat(),
        },
    )
    return Authority(signer, trust_domain=trust_domain, clock=clock)
