"""The names by which Envoy requests secrets, and the files of each name.

`default` is the workload's pair, `ROOTCA` its trust bundle; `file-cert:CERT~KEY`,
`file-root:PATH` and `file-root:system` name files themselves. These are Istio's names;
`file-crl:PATH`, revocation lists, is our own.
"""

from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from certclient._errors import InvalidConfig
from mesh_identity import system_root_files
from mesh_lifecycle import check_fields

WORKLOAD_CERTIFICATE = "default"
TRUST_BUNDLE = "ROOTCA"
_SYSTEM = "system"
_MAX_NAME = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSecretsConfig:
    """The files of `default` and `ROOTCA`; None for a name that files do not serve.

    output_directory: where our own output is written. Files in it are never taken as input: we
        would believe for ever what we wrote last.
    system_root_paths: where the machine may have its roots; the first file that exists is used.
    """

    certificate_path: Path | None = None
    key_path: Path | None = None
    root_path: Path | None = None
    output_directory: Path | None = None
    system_root_paths: tuple[Path, ...] = field(default_factory=system_root_files)

    def __post_init__(self) -> None:
        check_fields(self, error=InvalidConfig)


class PairFiles(msgspec.Struct, frozen=True):
    """The files of a chain and of its key."""

    certificate: Path
    key: Path


class RootFile(msgspec.Struct, frozen=True):
    """The file of a trust bundle: the first of these that exists."""

    root: Path
    or_else: tuple[Path, ...] = ()


class RevocationFile(msgspec.Struct, frozen=True):
    """The file of revocation lists."""

    crl: Path


SecretFiles = PairFiles | RootFile | RevocationFile


def root_name(path: Path) -> str:
    """Return the secret's name for a file of roots."""
    return f"file-root:{path}"


def revocation_name(path: Path) -> str:
    """Return the secret's name for a file of revocation lists."""
    return f"file-crl:{path}"


def files_of(name: str, config: FileSecretsConfig) -> SecretFiles | None:
    """Return the files of a secret's name; None if it is not the name of files."""
    if len(name) > _MAX_NAME or "\0" in name:
        return None
    return _named(name, config)


def paths_of(files: SecretFiles) -> tuple[Path, ...]:
    """Return the paths that a secret is read from."""
    match files:
        case PairFiles(certificate, key):
            return certificate, key
        case RootFile(root, others):
            return (root, *others)
        case RevocationFile(path):
            return (path,)


def _named(name: str, config: FileSecretsConfig) -> SecretFiles | None:
    kind, colon, rest = name.partition(":")
    match kind + colon:
        case "default":
            return _pair(config.certificate_path, config.key_path)
        case "ROOTCA":
            return _root(config.root_path)
        case "file-cert:":
            certificate, _, key = rest.partition("~")
            return _pair(Path(certificate), Path(key)) if certificate and key else None
        case "file-root:":
            places = config.system_root_paths if rest == _SYSTEM else (Path(rest),)
            return RootFile(places[0], places[1:]) if rest and places else None
        case "file-crl:" if rest:
            return RevocationFile(Path(rest))
        case _:
            return None


def _pair(certificate: Path | None, key: Path | None) -> PairFiles | None:
    return PairFiles(certificate, key) if certificate is not None and key is not None else None


def _root(path: Path | None) -> RootFile | None:
    return RootFile(path) if path is not None else None
