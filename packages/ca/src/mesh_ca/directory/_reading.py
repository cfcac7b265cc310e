"""Reads and checks the files of an authority."""

import logging
import os
import stat
from pathlib import Path

from mesh_ca._errors import StorageError
from mesh_ca._files import (
    file_exists,
    locked,
    read_file,
)
from mesh_ca.authority._keys import public_key_sha256
from mesh_ca.authority._signer import (
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
from mesh_ca.directory._own_root import (
    NEXT_CERT,
    NEXT_KEY,
    ROOT_STATE,
    OwnRoot,
    RootState,
)

log = logging.getLogger("mesh_ca")


def load_signer(directory: Path) -> Signer:
    """Read and check the files of an authority, for `Authority.replace_signer`.

    Raises StorageError that names the directory, the file and what would be right.
    """
    try:
        return _read_signer(directory)
    except StorageError:
        if not file_exists(directory / ROOT_STATE):
            raise
    with locked(directory):  # another process may just have been replacing them
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
    """Warn if other users may read the key. It is used: Kubernetes mounts secrets in such modes."""
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
            "other users may read the authority's key: they could sign as any workload of the mesh",
            extra={"file": str(key_path), "readable_by": ", ".join(readers), "remedy": "chmod 600"},
        )


def is_own_root(directory: Path) -> bool:
    """Return whether the root was generated here, so that this package may change it."""
    if not file_exists(directory / ROOT_STATE):
        return False
    state = RootState.from_json(read_file(directory / ROOT_STATE))
    key = private_key(read_file(directory / CA_KEY))
    return state.key_sha256 == public_key_sha256(key.public_key())


def read_own_root(directory: Path) -> OwnRoot:
    """Read and check a root of our own; raises StorageError. The caller holds the lock."""
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
