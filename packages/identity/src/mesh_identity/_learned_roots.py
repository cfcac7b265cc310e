"""Roots that the control plane has announced, stored in a file of the agent's.

The file decides which control plane the agent trusts. So only its owner may read or write it, and a
file of another owner, or that others could have written to, is not read.
"""

import json
import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path

from mesh_identity._presented import described_roots
from mesh_identity._root_memory import LearnedRoot, Root, RootMemory

log = logging.getLogger("mesh_identity")

_VERSION = 1
_MAX_BYTES = 1 << 20
_MAX_ANNOUNCED = 100


class LearnedRoots:
    """The roots that the control plane has announced beyond the operator's root file.

    Each connection gets its further roots from `further_roots`; roots that are announced over it
    are passed to `learn` under the same name. For one event loop only.
    """

    def __init__(self, path: Path, *, now: Callable[[], float]) -> None:
        """path: the file; it and its directory are created when there are roots to store."""
        self._path = path
        self._now = now
        self._memory: RootMemory | None = None
        self._problem: str | None = None
        self._file_roots: dict[str, frozenset[str]] = {}
        self._logged: frozenset[str] = frozenset()
        self._is_stored = True

    @property
    def problem(self) -> str | None:
        """Why the stored roots are not used; None if they are, or there are none."""
        return self._problem

    def describe(self) -> dict[str, object]:
        """Return the roots that are trusted now, for a status page."""
        memory = self._current()
        pem = "".join(root.pem for root in memory.trusted(now=self._now()))
        return {
            "file": str(self._path),
            "roots": described_roots(pem.encode()) if pem else "",
            "problem": self._problem,
        }

    def further_roots(self, connection: str, file_pem: bytes) -> bytes:
        """Return the roots, PEM, that a connection trusts besides those of the operator's file.

        connection: the connection's name.
        file_pem: the current content of the operator's file, at least one certificate.
        """
        file = _roots(file_pem, authorities_only=False)
        if not file:
            return b""
        memory = self._current().with_file(file, now=self._now())
        self._store(memory)
        self._file_roots[connection] = frozenset(memory.in_file)
        return "".join(root.pem for root in memory.trusted(now=self._now())).encode()

    def trusted_beside(self, file_pem: bytes) -> bytes:
        """Return what `further_roots` would return, and change nothing."""
        file = _roots(file_pem, authorities_only=False)
        memory = self._current().with_file(file, now=self._now()) if file else RootMemory()
        return "".join(root.pem for root in memory.trusted(now=self._now())).encode()

    def learn(self, connection: str, roots_pem: bytes, *, complete: bool) -> None:
        """Remember roots that were announced over a connection.

        Nothing is learned without roots, or over a connection that was not verified by the file.
        complete: whether these are all roots, so that others are forgotten.
        """
        file_roots = self._file_roots.get(connection)
        announced = _roots(roots_pem, authorities_only=True)
        if not file_roots or not announced:
            return
        before = self._current()
        self._log_withdrawn(before, announced)
        memory = before.learn(announced, file_roots=file_roots, complete=complete, now=self._now())
        new = {each.root for each in memory.learned} - {each.root for each in before.learned}
        if new:
            pem = "".join(root.pem for root in new).encode()
            log.info(
                "roots learned from the control plane",
                extra={"roots": described_roots(pem), "file": str(self._path)},
            )
        self._store(memory)

    def _log_withdrawn(self, memory: RootMemory, announced: tuple[Root, ...]) -> None:
        withdrawn = [root for root in announced if root.fingerprint in memory.withdrawn]
        fingerprints = frozenset(root.fingerprint for root in withdrawn)
        if fingerprints - self._logged:
            pem = "".join(root.pem for root in withdrawn).encode()
            log.warning(
                "the control plane announces a root that was taken out of the root file; it is "
                "not used for connections to the control plane",
                extra={"roots": described_roots(pem)},
            )
        self._logged = fingerprints

    def _current(self) -> RootMemory:
        if self._memory is None:
            try:
                self._memory = _read(self._path)
            except _Unusable as error:
                self._memory = RootMemory()
                self._problem = f"learned roots {self._path} are not used: {error}"
                log.error(
                    "learned roots are not used",
                    extra={"file": str(self._path), "reason": str(error)},
                )
        return self._memory

    def _store(self, memory: RootMemory) -> None:
        if memory == self._memory and self._is_stored:
            return
        self._memory = memory
        if not memory.learned and not memory.withdrawn and not os.path.lexists(self._path):
            return  # without announced roots no file is needed
        was_stored = self._is_stored
        try:
            _write(self._path, memory)
        except OSError as error:
            # Tried again at each connection: a disk that is full is so for a while only.
            self._is_stored = False
            if was_stored:
                log.warning(
                    "learned roots can't be stored, they are forgotten if the agent ends now",
                    extra={"file": str(self._path), "reason": error.strerror},
                )
        else:
            self._is_stored = True
            if not was_stored:
                log.info("learned roots are stored again", extra={"file": str(self._path)})


class _Unusable(Exception):
    """A stored file that must not be trusted."""


def _read(path: Path) -> RootMemory:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return RootMemory()
    except OSError as error:
        raise _Unusable(f"it can't be opened: {error.strerror}") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _Unusable("it is no regular file")
        if status.st_uid != os.geteuid():
            raise _Unusable(
                f"it belongs to user {status.st_uid}, and the agent runs as {os.geteuid()}: delete "
                "it unless you know who put it there"
            )
        if status.st_mode & 0o077:
            raise _Unusable(f"its mode is {stat.S_IMODE(status.st_mode):o}, it must be 600")
        if status.st_size > _MAX_BYTES:
            raise _Unusable(f"it is over {_MAX_BYTES} bytes")
        content = os.read(descriptor, _MAX_BYTES)
    finally:
        os.close(descriptor)
    try:
        return _parsed(json.loads(content))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _Unusable("it is damaged; it can be deleted") from error


def _parsed(stored: dict[str, object]) -> RootMemory:
    if stored["version"] != _VERSION:
        raise ValueError("another version")
    learned, in_file, withdrawn = stored["learned"], stored["in_file"], stored["withdrawn"]
    if not (
        isinstance(learned, list) and isinstance(in_file, dict) and isinstance(withdrawn, dict)
    ):
        raise TypeError("not the form of this version")
    return RootMemory(
        learned=tuple(_parsed_root(each) for each in learned),
        in_file={str(name): float(end) for name, end in in_file.items()},
        withdrawn={str(name): float(end) for name, end in withdrawn.items()},
    )


def _parsed_root(stored: dict[str, object]) -> LearnedRoot:
    file_roots, announced_at = stored["under"], stored["vouched_at"]
    if not isinstance(file_roots, list) or not isinstance(announced_at, int | float):
        raise TypeError("not the form of this version")
    (root,) = _roots(str(stored["pem"]).encode(), authorities_only=True)
    return LearnedRoot(
        root=root,
        announced_at=float(announced_at),
        file_roots=frozenset(map(str, file_roots)),
    )


def _write(path: Path, memory: RootMemory) -> None:
    content = json.dumps(
        {
            "version": _VERSION,
            "learned": [
                {
                    "pem": each.root.pem,
                    "vouched_at": each.announced_at,
                    "under": sorted(each.file_roots),
                }
                for each in memory.learned
            ],
            "in_file": dict(memory.in_file),
            "withdrawn": dict(memory.withdrawn),
        },
        indent=1,
    )
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.unlink(missing_ok=True)  # left by a killed agent with the same process number
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(part, flags, 0o600), "w", encoding="ascii") as file:
            file.write(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _roots(pem: bytes, *, authorities_only: bool) -> tuple[Root, ...]:
    """Return the certificates in a PEM text; none if it can't be read.

    authorities_only: only self-signed certificates of authorities, and at most _MAX_ANNOUNCED.
    """
    # Here, because agents that use plaintext or the machine's roots need no cryptography.
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding

    def is_root(certificate: x509.Certificate) -> bool:
        try:
            constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
            certificate.verify_directly_issued_by(certificate)
        except Exception:  # noqa: BLE001 - any error means that it is no root
            return False
        return constraints.value.ca

    try:
        certificates = x509.load_pem_x509_certificates(pem)
    except (ValueError, x509.InvalidVersion):
        return ()
    if authorities_only:
        certificates = [each for each in certificates[:_MAX_ANNOUNCED] if is_root(each)]
    return tuple(
        Root(
            fingerprint=each.fingerprint(SHA256()).hex(),
            pem=each.public_bytes(Encoding.PEM).decode("ascii"),
            not_after=each.not_valid_after_utc.timestamp(),
        )
        for each in dict.fromkeys(certificates)
    )
