"""Where machines keep the roots that they trust."""

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Final

SYSTEM_ROOT_PATHS = (
    Path("/etc/ssl/certs/ca-certificates.crt"),
    Path("/etc/pki/tls/certs/ca-bundle.crt"),
    Path("/etc/ssl/ca-bundle.pem"),
    Path("/etc/pki/tls/cacert.pem"),
    Path("/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"),
    Path("/etc/ssl/cert.pem"),
    Path("/usr/local/etc/ssl/cert.pem"),
)


class SystemRoots(Enum):
    """The roots that the machine trusts."""

    SYSTEM = "SYSTEM"


SYSTEM: Final = SystemRoots.SYSTEM


def system_roots_path(paths: Sequence[Path] = SYSTEM_ROOT_PATHS) -> Path | None:
    """Return the first file of roots that there is."""
    return next(filter(Path.is_file, paths), None)
