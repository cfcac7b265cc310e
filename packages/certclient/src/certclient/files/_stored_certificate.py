"""A certificate with its key and roots on disk, which a program takes up again when it starts anew.

Only the file's owner may read or write it: who could write it would decide which roots are
trusted. Whether the certificate is still right is not for this module to say: rotation checks it as
it checks an answer of the authority.
"""

import asyncio
import hashlib
import json
import logging
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from certclient._errors import SourceUnavailable
from certclient.feed._certificates import Certificates
from certclient.files._output_files import OutputFilesConfig
from certclient.x509._certificate import Certificate
from certclient.x509._pem import MAX_PEM_BYTES
from mesh_filewatch import read_bytes, run_in_thread
from mesh_lifecycle import Backoff, Clock, SystemClock, in_background

log = logging.getLogger("certclient.files")

_FORMAT = 1
_MAX_BYTES = 4 * MAX_PEM_BYTES
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_TRY_AGAIN = Backoff(initial_s=0.5, maximum_s=60.0)
_TOGETHER = ("key.pem", "cert-chain.pem", "root-cert.pem")


class StoredCertificate(NamedTuple):
    """A certificate as it was stored; nothing in it is checked. PEM.

    is_current: its roots are known to be the newest; otherwise a renewal follows at once.
    """

    private_key_pem: bytes
    chain_pem: bytes
    trust_bundle_pem: bytes
    is_current: bool = True

    def __repr__(self) -> str:
        return "StoredCertificate(...)"


class CertificateFile:
    """A file with one certificate, its key and its roots, mode 0600, replaced whole."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def fetch(self) -> StoredCertificate | None:
        """Read the file; None if there is none. Raises SourceUnavailable with the reason."""
        try:
            return await run_in_thread(partial(_read, self.path), path=self.path)
        except OSError as error:
            raise SourceUnavailable(f"{self.path} cannot be read: {error.strerror}") from error

    async def store(self, certificate: Certificate) -> None:
        """Replace the file. Raises OSError."""
        work = partial(_write, self.path, certificate)
        await run_in_thread(work, path=self.path, key=("store", self.path))

    async def remove(self) -> None:
        """Remove the file, and the key in it. Raises OSError."""
        await run_in_thread(partial(self.path.unlink, missing_ok=True), path=self.path)


class OutputFiles:
    """The files that `output_files` writes, as the certificate to begin with.

    is_current: whether their roots are the authority's alone.
    """

    def __init__(self, config: OutputFilesConfig, *, is_current: bool) -> None:
        self._config = config
        self._is_current = is_current

    async def fetch(self) -> StoredCertificate | None:
        """Read the files; None if one does not exist. Raises SourceUnavailable with the reason."""
        directory = self._config.directory
        try:
            found = await run_in_thread(partial(_read_output, directory), path=directory / "any")
        except OSError as error:
            raise SourceUnavailable(f"{directory} cannot be read: {error.strerror}") from error
        if found is None:
            return None
        key, chain, roots = found
        return StoredCertificate(key, chain, roots, self._is_current)


@asynccontextmanager
async def stored(
    file: CertificateFile, certificates: Certificates, *, clock: Clock | None = None
) -> AsyncIterator[None]:
    """Store each new certificate for as long as the block runs; a failure is only logged."""
    storing = _store_changes(file, certificates, clock or SystemClock())
    async with in_background(storing, name="stored certificate"):
        yield


async def _store_changes(file: CertificateFile, certificates: Certificates, clock: Clock) -> None:
    async for certificate in certificates.changes():
        if certificate is not None:
            await _store_until_done(file, certificates, certificate, clock)
    # Reached only if rotation stopped first, when the caller is about to leave this block too.
    await asyncio.Event().wait()


async def _store_until_done(
    file: CertificateFile, certificates: Certificates, certificate: Certificate, clock: Clock
) -> None:
    is_logged = False
    for delay_s in _TRY_AGAIN.delays():
        try:
            await file.store(certificate)
        except OSError as error:
            if not is_logged:
                is_logged = True
                log.warning(
                    "the certificate can't be stored, a restart has to request another one",
                    extra={"file": str(file.path), "reason": error.strerror},
                )
        else:
            return
        await clock.sleep(delay_s)
        if certificates.latest is not certificate:
            return


def _read(path: Path) -> StoredCertificate | None:
    try:
        descriptor = os.open(path, _OPEN)
    except FileNotFoundError:
        return None
    except OSError as error:
        if path.is_symlink():
            raise SourceUnavailable(f"{path} is a link") from error
        raise
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise SourceUnavailable(f"{path} is no regular file")
        _check_owner(path, status, forbidden=0o077, wanted="600")
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise SourceUnavailable(f"{path} has more than {_MAX_BYTES} bytes")
    try:
        fields = json.loads(content)
        if fields["format"] != _FORMAT:
            raise SourceUnavailable(f"{path} is of another format, {str(fields['format'])[:20]!r}")
        key, chain, roots = (fields[name] for name in ("key", "chain", "roots"))
        if fields["sha256"] != _digest(key, chain, roots):
            # A root's own signature is not checked by TLS.
            raise SourceUnavailable(f"{path} is damaged: its digest does not match its content")
        return StoredCertificate(key.encode("ascii"), chain.encode("ascii"), roots.encode("ascii"))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise SourceUnavailable(f"{path} is damaged or cut short") from error


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _write(path: Path, certificate: Certificate) -> None:
    pems = (certificate.private_key_pem, certificate.chain_pem, certificate.trust_bundle_pem)
    key, chain, roots = (pem.decode("ascii") for pem in pems)
    digest = _digest(key, chain, roots)
    fields = {"format": _FORMAT, "key": key, "chain": chain, "roots": roots, "sha256": digest}
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)  # left by a program that was killed
    try:
        with os.fdopen(os.open(part, _CREATE, 0o600), "w", encoding="ascii") as file:
            json.dump(fields, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _read_output(directory: Path) -> tuple[bytes, bytes, bytes] | None:
    paths = [directory / name for name in _TOGETHER]
    try:
        for path in paths:
            _check_owner(path, path.stat(), forbidden=0o022, wanted="600")
        key, chain, roots = (read_bytes(path, max_bytes=MAX_PEM_BYTES) for path in paths)
    except FileNotFoundError:
        return None
    return key, chain, roots


def _check_owner(path: Path, status: os.stat_result, *, forbidden: int, wanted: str) -> None:
    """Raise SourceUnavailable if another user may have written the file."""
    if status.st_uid != os.geteuid():
        raise SourceUnavailable(
            f"{path} belongs to user {status.st_uid}, and this is user {os.geteuid()}"
        )
    if status.st_mode & forbidden:
        mode = stat.S_IMODE(status.st_mode)
        raise SourceUnavailable(f"{path} has mode {mode:o}, it must be {wanted}")
