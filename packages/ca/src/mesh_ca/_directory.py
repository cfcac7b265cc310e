"""An authority's directory: found and checked, or made with a new self-signed root.

`ca-key.pem` decides. If it is there, the four files are what an operator plugged in or an earlier
start made; if it is not, they are made. A root that was made here is followed by others in time;
what was plugged in is only ever read.
"""

import logging
import math
import os
import secrets
import stat
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from mesh_ca._authority import Authority
from mesh_ca._errors import StorageError
from mesh_ca._files import (
    create_files,
    finish_replacement,
    read_file,
    replacing_files,
    undisturbed,
)
from mesh_ca._identity import checked_trust_domain
from mesh_ca._keys import KeyType
from mesh_ca._profile import whole_second
from mesh_ca._root import (
    NEXT_CERT,
    NEXT_KEY,
    ROOT_STATE,
    OwnRoot,
    RootPolicy,
    RootState,
    Step,
    fingerprint,
    new_root,
    next_step,
    replacement,
    stepped,
)
from mesh_ca._signer import (
    CA_CERT,
    CA_KEY,
    CERT_CHAIN,
    ROOT_CERT,
    Signer,
    SignerFiles,
    certificates,
    private_key,
    signer_from_pem,
)

log = logging.getLogger("mesh_ca")

ROOT_LIFETIME = timedelta(days=3650)

_PRIVATE = frozenset({CA_KEY, NEXT_KEY})


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
    0600); processes that start at once agree on one. `root_lifetime` and `root_key` matter then,
    and when a root that was made here is found expired: it is certified anew, with the same key.
    Raises StorageError, and IdentityError for a bad trust domain.
    """
    checked_trust_domain(trust_domain)
    finish_replacement(directory)
    if not _exists(directory / CA_KEY):
        create_files(
            directory,
            last=CA_KEY,
            make=lambda: new_root(
                root_key,
                organization=trust_domain,
                serial=_serial(),
                now=whole_second(clock()),
                lifetime=root_lifetime,
            ),
            private=_PRIVATE,
        )
    signer = load_signer(directory)
    now = whole_second(clock())
    if now >= signer.not_after and is_own_root(directory):
        # No one ran to do it in time. What was told of the old root must be told of the new one.
        log.warning("root has expired, certifying it anew", extra={"directory": str(directory)})
        turn_root(directory, RootPolicy(lifetime=root_lifetime), now=clock())
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


def load_signer(directory: Path) -> Signer:
    """Read and check the files of an authority, for `Authority.replace_signer`.

    Raises StorageError that names the directory, the file and what would be right.
    """
    try:
        return _read_signer(directory)
    except StorageError:
        if not _exists(directory / ROOT_STATE):
            raise
    with undisturbed(directory):  # another process may just have been replacing them
        return _read_signer(directory)


def _read_signer(directory: Path) -> Signer:
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
    _warn_of_readers(key_path)
    return signer


def _warn_of_readers(key_path: Path) -> None:
    """Tell who else may read the key. Not refused: Kubernetes mounts secrets in such modes."""
    status = key_path.stat()
    readers = [
        who
        for who, may in (
            ("every user", status.st_mode & stat.S_IROTH),
            (f"group {status.st_gid}", status.st_mode & stat.S_IRGRP),
            (f"its owner, user {status.st_uid}", status.st_uid not in {0, os.geteuid()}),
        )
        if may
    ]
    if readers:
        log.warning(
            "the authority's key may be read by others, who can be anyone in the mesh with it",
            extra={"file": str(key_path), "readable_by": ", ".join(readers), "remedy": "chmod 600"},
        )


def turn_root(directory: Path, policy: RootPolicy, *, now: float) -> tuple[Step, ...]:
    """Do what is due for a root of our own; nothing for one that was plugged in.

    What the files say then is what `load_signer` reads. Raises StorageError, and leaves the files
    as they were.
    """
    moment = whole_second(now)
    done: list[Step] = []
    if not is_own_root(directory):
        return ()
    while len(done) <= len(Step):
        with replacing_files(directory, private=_PRIVATE) as files:
            own = read_own_root(directory)
            step = next_step(own, policy, now=moment)
            if step is None:
                if own.state.activate_at is None:  # what was next has its place by now
                    for name in (NEXT_KEY, NEXT_CERT):
                        (directory / name).unlink(missing_ok=True)
                break
            files.update(stepped(own, step, policy, now=moment, serial=_serial()))
        done.append(step)
        log.info("root changed", extra={"directory": str(directory), "step": step.value})
    return tuple(done)


def next_step_at(directory: Path) -> float | None:
    """When the next step of a replacement is due, in Unix seconds; None if none is under way."""
    if not is_own_root(directory):
        return None
    state = RootState.from_json(read_file(directory / ROOT_STATE))
    moments = [each for each in (state.activate_at, state.retire_at) if each is not None]
    # Steps are judged by whole seconds: `turn_root` does none before the next one has begun.
    return math.ceil(min(moments)) if moments else None


def replace_root(
    directory: Path,
    policy: RootPolicy | None = None,
    *,
    root_key: KeyType = KeyType.P256,
    clock: Callable[[], float] = time.time,
) -> None:
    """Begin to replace the root by one with a new key: its key has leaked, or must not be used.

    The new root is handed out at once, signs after `policy.spread`, and the old one is handed out
    until `policy.retirement` after that. A process that keeps the authority does these steps.
    Raises StorageError if the authority is plugged in or is being replaced already.
    """
    if not is_own_root(directory):
        raise StorageError(
            f"the authority in {directory} was plugged in: put another there, with both roots in "
            f"{ROOT_CERT} until all workloads have a certificate below the new one"
        )
    with replacing_files(directory, private=_PRIVATE) as files:
        new = replacement(
            read_own_root(directory),
            policy or RootPolicy(),
            key_type=root_key,
            now=whole_second(clock()),
            serial=_serial(),
        )
        files.update(new)
    log.warning("root is being replaced", extra={"directory": str(directory)})


def is_own_root(directory: Path) -> bool:
    """Whether the root was made here, by us, so that changing it is our business."""
    if not _exists(directory / ROOT_STATE):
        return False
    state = RootState.from_json(read_file(directory / ROOT_STATE))
    return state.key_sha256 == fingerprint(private_key(read_file(directory / CA_KEY)))


def read_own_root(directory: Path) -> OwnRoot:
    """Read and check a root of our own, undisturbed; raises StorageError."""
    signer = _read_signer(directory)
    state = RootState.from_json(read_file(directory / ROOT_STATE))
    next_key = next_certificate = None
    if state.activate_at is not None:
        try:
            next_key = private_key(read_file(directory / NEXT_KEY))
            next_certificate = certificates(read_file(directory / NEXT_CERT), NEXT_CERT)[0]
        except StorageError as error:
            raise StorageError(f"the new root in {directory} can't be used: {error}") from error
    return OwnRoot(
        key=signer.key,
        certificate=signer.certificate,
        bundle=tuple(certificates(signer.root_pem, ROOT_CERT)),
        state=state,
        next_key=next_key,
        next_certificate=next_certificate,
    )


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StorageError(f"can't read {path}: {error.strerror}") from error
    return True


def _serial() -> int:
    return secrets.randbits(128) or 1
