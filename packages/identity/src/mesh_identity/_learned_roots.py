"""Roots learned from the control plane, kept in a file of the agent's own.

The file decides whom the workload's agent believes, so it is written for its owner alone, and one
that somebody else owns or could have written to is not read.
"""

import json
import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path

from mesh_identity._presented import described_roots
from mesh_identity._root_memory import Learned, Root, RootMemory

log = logging.getLogger("mesh_identity")

_VERSION = 1
_MAX_BYTES = 1 << 20
_MAX_ANNOUNCED = 100


class LearnedRoots:
    """What the control plane has announced beyond the operator's root file. One event loop only.

    Each connection gets its further roots from `beside`; what comes over it is passed to `learn`
    under the same name.
    """

    def __init__(self, path: Path, *, now: Callable[[], float]) -> None:
        """path: the file, made with its directory when there is something to keep."""
        self._path = path
        self._now = now
        self._memory: RootMemory | None = None
        self._problem: str | None = None
        self._verified_by: dict[str, frozenset[str]] = {}
        self._told: frozenset[str] = frozenset()

    @property
    def problem(self) -> str | None:
        """Why what was kept is not used; None if it is, or there was nothing."""
        return self._problem

    def describe(self) -> dict[str, object]:
        """What counts now, for a status."""
        memory = self._loaded()
        pem = "".join(root.pem for root in memory.in_force(now=self._now()))
        return {
            "file": str(self._path),
            "roots": described_roots(pem.encode()) if pem else "",
            "problem": self._problem,
        }

    def beside(self, connection: str, file_pem: bytes) -> bytes:
        """Return the roots, PEM, that a connection trusts besides those of the operator's file.

        connection: its name. file_pem: what the file holds now, at least one certificate.
        """
        file = _roots(file_pem, authorities_only=False)
        if not file:
            return b""
        memory = self._loaded().look(file, now=self._now())
        self._keep(memory)
        self._verified_by[connection] = frozenset(memory.in_file)
        return "".join(root.pem for root in memory.in_force(now=self._now())).encode()

    def learn(self, connection: str, roots_pem: bytes, *, whole: bool) -> None:
        """Take in roots that came over a connection. whole: there are no others.

        Nothing is learned from none, nor over a connection that was not verified by the file.
        """
        under = self._verified_by.get(connection)
        announced = _roots(roots_pem, authorities_only=True)
        if not under or not announced:
            return
        before = self._loaded()
        self._tell_of_withdrawn(before, announced)
        memory = before.learn(announced, under=under, whole=whole, now=self._now())
        new = {each.root for each in memory.learned} - {each.root for each in before.learned}
        if new:
            pem = "".join(root.pem for root in new).encode()
            log.info(
                "roots learned from the control plane",
                extra={"roots": described_roots(pem), "file": str(self._path)},
            )
        self._keep(memory)

    def _tell_of_withdrawn(self, memory: RootMemory, announced: tuple[Root, ...]) -> None:
        withdrawn = [root for root in announced if root.fingerprint in memory.withdrawn]
        told = frozenset(root.fingerprint for root in withdrawn)
        if told - self._told:
            pem = "".join(root.pem for root in withdrawn).encode()
            log.warning(
                "the control plane announces a root that was taken out of the root file; it is "
                "not used for connections to the control plane",
                extra={"roots": described_roots(pem)},
            )
        self._told = told

    def _loaded(self) -> RootMemory:
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

    def _keep(self, memory: RootMemory) -> None:
        if memory == self._memory:
            return
        self._memory = memory
        if not memory.learned and not memory.withdrawn and not os.path.lexists(self._path):
            return  # the file's roots alone are no reason to make another file
        try:
            _write(self._path, memory)
        except OSError as error:
            log.warning(
                "learned roots can't be kept, they are forgotten when the agent ends",
                extra={"file": str(self._path), "reason": error.strerror},
            )


class _Unusable(Exception):
    """A kept file that must not be believed."""


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
                f"it belongs to user {status.st_uid}, and the agent runs as {os.geteuid()}: who "
                "put it there? Delete it if nobody should have"
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


def _parsed(kept: dict[str, object]) -> RootMemory:
    if kept["version"] != _VERSION:
        raise ValueError("another version's")
    learned, in_file, withdrawn = kept["learned"], kept["in_file"], kept["withdrawn"]
    if not (
        isinstance(learned, list) and isinstance(in_file, dict) and isinstance(withdrawn, dict)
    ):
        raise TypeError("not of the form that is written")
    return RootMemory(
        learned=tuple(_parsed_root(each) for each in learned),
        in_file={str(name): float(end) for name, end in in_file.items()},
        withdrawn={str(name): float(end) for name, end in withdrawn.items()},
    )


def _parsed_root(kept: dict[str, object]) -> Learned:
    under, vouched_at = kept["under"], kept["vouched_at"]
    if not isinstance(under, list) or not isinstance(vouched_at, int | float):
        raise TypeError("not of the form that is written")
    (root,) = _roots(str(kept["pem"]).encode(), authorities_only=True)
    return Learned(root=root, vouched_at=float(vouched_at), under=frozenset(map(str, under)))


def _write(path: Path, memory: RootMemory) -> None:
    content = json.dumps(
        {
            "version": _VERSION,
            "learned": [
                {
                    "pem": each.root.pem,
                    "vouched_at": each.vouched_at,
                    "under": sorted(each.under),
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
    part.unlink(missing_ok=True)  # of an agent of the same number that was killed
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(part, flags, 0o600), "w", encoding="ascii") as file:
            file.write(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _roots(pem: bytes, *, authorities_only: bool) -> tuple[Root, ...]:
    """The certificates in a PEM text; none if it can't be read.

    authorities_only: without those that are no self-issued certificates of authorities, and few.
    """
    # Here: whoever calls over plaintext or trusts the machine's roots needs no cryptography.
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding

    def is_root(certificate: x509.Certificate) -> bool:
        try:
            constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
            certificate.verify_directly_issued_by(certificate)
        except Exception:  # noqa: BLE001 - whatever it is, it is no root
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
