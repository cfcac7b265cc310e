"""The roots that the machine trusts, found as OpenSSL and Go find them.

`SSL_CERT_FILE` names the file in place of those that distributions have, and `SSL_CERT_DIR`
directories of further files, as a PATH is written.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Final

from mesh_filewatch import read_bytes, run_in_thread
from mesh_identity._unreachable import TrustedRoots

SYSTEM_ROOT_PATHS: Final = (
    Path("/etc/ssl/certs/ca-certificates.crt"),
    Path("/etc/pki/tls/certs/ca-bundle.crt"),
    Path("/etc/ssl/ca-bundle.pem"),
    Path("/etc/pki/tls/cacert.pem"),
    Path("/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"),
    Path("/etc/ssl/cert.pem"),
    Path("/usr/local/etc/ssl/cert.pem"),
)

_FILE, _DIRECTORIES = "SSL_CERT_FILE", "SSL_CERT_DIR"
_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"
_MAX_FILE_BYTES = 4 << 20
_MAX_ENTRIES = 4096  # of a directory


class SystemRoots(Enum):
    """The roots that the machine trusts."""

    SYSTEM = "SYSTEM"


SYSTEM: Final = SystemRoots.SYSTEM


class NoSystemRoots(Exception):
    """The machine has no roots in the usual places; the message is a sentence."""


def system_root_files(environ: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """Return the files that may have the machine's roots; the first that exists is used.

    environ: instead of the process's environment.
    """
    named = (os.environ if environ is None else environ).get(_FILE)
    return (Path(named),) if named else SYSTEM_ROOT_PATHS


async def fetch_system_roots(environ: Mapping[str, str] | None = None) -> TrustedRoots:
    """Return the machine's roots to verify a server by; raises NoSystemRoots.

    environ: instead of the process's environment.
    """
    environ = dict(os.environ if environ is None else environ)
    try:
        # In a thread, because /etc may be on a mount that hangs.
        return await run_in_thread(
            partial(read_system_roots, environ), path=system_root_files(environ)[0]
        )
    except OSError as error:
        raise NoSystemRoots(f"the system's root certificates cannot be read: {error}") from error


def read_system_roots(
    environ: Mapping[str, str], *, well_known: Sequence[Path] = SYSTEM_ROOT_PATHS
) -> TrustedRoots:
    """Return the machine's roots; blocks."""
    found: dict[Path, list[bytes]] = {}
    if file := environ.get(_FILE):
        found[Path(file)] = [_in_file(Path(file), f" ({_FILE})")]
    elif existing := next(filter(os.path.isfile, well_known), None):
        found[existing] = [_in_file(existing)]
    directories = [Path(each) for each in environ.get(_DIRECTORIES, "").split(":") if each]
    for directory in directories:
        if pems := list(_in_directory(directory)):
            found[directory] = pems
    if not found:
        places = ", ".join(map(str, directories or well_known))
        raise NoSystemRoots(
            f"the system has no root certificates in {places}: set {_FILE} or {_DIRECTORIES}, or "
            "name a root certificate file"
        )
    return TrustedRoots(
        # A directory has each root twice: OpenSSL needs links with names of its own.
        roots_pem=b"\n".join(dict.fromkeys(chain.from_iterable(found.values()))),
        described=f"one of the system's roots ({', '.join(map(str, found))})",
        own=False,
    )


def _in_file(path: Path, whose: str = "") -> bytes:
    what = f"the system's root certificate file {path}{whose}"
    try:
        pem = read_bytes(path, max_bytes=_MAX_FILE_BYTES)
    except FileNotFoundError as error:
        raise NoSystemRoots(f"{what} does not exist") from error
    except OSError as error:
        raise NoSystemRoots(f"{what} cannot be read: {error.strerror}") from error
    if _CERTIFICATE not in pem:
        raise NoSystemRoots(f"{what} holds no PEM certificate")
    return pem


def _in_directory(directory: Path) -> Iterator[bytes]:
    """Yield the content of the files of certificates; skips others and unreadable ones."""
    try:
        entries = sorted(islice(directory.iterdir(), _MAX_ENTRIES))
    except OSError:
        return
    for path in entries:
        with suppress(OSError):
            if _CERTIFICATE in (pem := read_bytes(path, max_bytes=_MAX_FILE_BYTES)):
                yield pem
