"""The files of a mounted certificate: named, and found where Istio looks for them."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from certclient._errors import InvalidConfig
from mesh_lifecycle import check_fields

_FILE_NAMES = ("cert-chain.pem", "key.pem", "root-cert.pem")
_WELL_KNOWN = (
    ("var/run/secrets/workload-spiffe-credentials", _FILE_NAMES),
    (
        "var/run/secrets/workload-spiffe-credentials",
        ("certificates.pem", "private_key.pem", "ca_certificates.pem"),
    ),
    ("etc/certs", _FILE_NAMES),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesConfig:
    """The files in which another program puts the certificate, its key and the roots."""

    certificate_path: Path
    key_path: Path
    root_path: Path

    def __post_init__(self) -> None:
        check_fields(self, error=InvalidConfig)

    @classmethod
    def in_directory(cls, directory: Path) -> "FilesConfig":
        """Name the files as Istio does: cert-chain.pem, key.pem, root-cert.pem."""
        certificate, key, root = (directory / name for name in _FILE_NAMES)
        return cls(certificate_path=certificate, key_path=key, root_path=root)


def mounted_files(
    base: Path, *, is_file: Callable[[Path], bool] = os.path.isfile
) -> FilesConfig | None:
    """Return the files of a certificate that is mounted below `base`, where Istio looks for one.

    The places are the workload's SPIFFE credentials, by Istio's names or by GKE's, and then
    `etc/certs`. Returns the first place where all three files exist; None without one.
    is_file: tells whether a file exists; the default waits as long as the file system takes.
    """
    for directory, names in _WELL_KNOWN:
        certificate, key, root = (base / directory / name for name in names)
        if all(is_file(path) for path in (certificate, key, root)):
            return FilesConfig(certificate_path=certificate, key_path=key, root_path=root)
    return None
