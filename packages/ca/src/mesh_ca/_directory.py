"""An authority's directory: found and checked, or made with a new self-signed root.

`ca-key.pem` decides. If it is there, the four files are what an operator plugged in or an earlier
start made, and only ever read; if it is not, they are made.
"""

import logging
import secrets
import stat
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from mesh_ca._authority import Authority
from mesh_ca._errors import StorageError
from mesh_ca._files import create_files, read_file
from mesh_ca._identity import checked_trust_domain
from mesh_ca._keys import KeyType, key_pem, new_key
from mesh_ca._profile import root_certificate, whole_second
from mesh_ca._signer import (
    CA_CERT,
    CA_KEY,
    CERT_CHAIN,
    ROOT_CERT,
    Signer,
    SignerFiles,
    signer_files,
    signer_from_pem,
)

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
    """The authority that lives in `directory`.

    If there is no `ca-key.pem` yet, the directory gets a new self-signed root (mode 0700, the key
    0600); processes that start at once agree on one. `root_lifetime` and `root_key` matter only
    then. Raises StorageError, and IdentityError for a bad trust domain.
    """
    checked_trust_domain(trust_domain)
    if not _exists(directory / CA_KEY):
        create_files(
            directory,
            last=CA_KEY,
            make=lambda: _new_root(trust_domain, root_lifetime, root_key, clock()),
            private=frozenset({CA_KEY}),
        )
    signer = load_signer(directory)
    now = whole_second(clock())
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


def load_signer(directory: Path) -> Signer:
    """Read and check the files of an authority, for `Authority.replace_signer`.

    Raises StorageError that names the directory, the file and what would be right.
    """
    key_path = directory / CA_KEY
    files = SignerFiles(
        ca_cert=read_file(directory / CA_CERT),
        ca_key=read_file(key_path),
        cert_chain=read_file(directory / CERT_CHAIN),
        root_cert=read_file(directory / ROOT_CERT),
    )
    try:
        signer = signer_from_pem(files)
    except StorageError as error:
        raise StorageError(f"in {directory}: {error}") from error
    if key_path.stat().st_mode & stat.S_IROTH:
        log.warning("every user may read the authority's key", extra={"file": str(key_path)})
    return signer


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StorageError(f"can't read {path}: {error.strerror}") from error
    return True


def _new_root(
    trust_domain: str, lifetime: timedelta, key_type: KeyType, now: float
) -> dict[str, bytes]:
    key = new_key(key_type)
    root = root_certificate(
        key,
        organization=trust_domain,
        serial=secrets.randbits(128) or 1,
        now=whole_second(now),
        lifetime=lifetime,
    )
    files = signer_files(key_pem(key), root)
    return {
        CA_CERT: files.ca_cert,
        CA_KEY: files.ca_key,
        CERT_CHAIN: files.cert_chain,
        ROOT_CERT: files.root_cert,
    }
