"""Mounted files as an issuer of certificates, for all that takes `Certificates`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from certclient._certificate import Certificate
from certclient._certificates import Certificates
from certclient._errors import InvalidSpiffeId
from certclient._file_secrets import FileSecrets, file_secrets
from certclient._following import Follower
from certclient._pem import KeyPair, Roots
from certclient._secret_names import TRUST_BUNDLE, WORKLOAD_CERTIFICATE, FileSecretsConfig
from certclient._spiffe import SpiffeId
from mesh_lifecycle import Clock, SystemClock, in_background

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
    """Where somebody else puts the certificate, its key and the roots, and renews them."""

    certificate_path: Path
    key_path: Path
    root_path: Path

    @classmethod
    def in_directory(cls, directory: Path) -> "FilesConfig":
        """Name the files as Istio does: cert-chain.pem, key.pem, root-cert.pem."""
        certificate, key, root = (directory / name for name in _FILE_NAMES)
        return cls(certificate_path=certificate, key_path=key, root_path=root)


def mounted_files(base: Path) -> FilesConfig | None:
    """Return the certificate that is mounted where Istio looks for one below `base`.

    That is the workload's SPIFFE credentials, by Istio's names or by GKE's, and then `etc/certs`.
    Only a place where all three files are counts; None if there is none.
    """
    for directory, names in _WELL_KNOWN:
        certificate, key, root = (base / directory / name for name in names)
        if all(path.is_file() for path in (certificate, key, root)):
            return FilesConfig(certificate_path=certificate, key_path=key, root_path=root)
    return None


@asynccontextmanager
async def follow_files(
    config: FilesConfig, *, clock: Clock | None = None
) -> AsyncIterator[Certificates]:
    """Publish what the files hold, whenever chain, key and roots are all good.

    The leaf must have one SPIFFE id. Does not wait for the files: see `wait_for_first`.
    """
    chosen = clock or SystemClock()
    sources = FileSecretsConfig(
        certificate_path=config.certificate_path,
        key_path=config.key_path,
        root_path=config.root_path,
    )
    async with file_secrets(sources, clock=chosen) as secrets:
        follower = Follower(chosen, ask=secrets.look)
        async with in_background(_following(secrets, follower), name="certificate files"):
            try:
                yield follower.certificates
            finally:
                follower.close()


async def _following(secrets: FileSecrets, follower: Follower) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(follower.watch_expiry(), name="certificate expiry")
        async for _ in secrets.looks():
            _publish(secrets, follower)


def _publish(secrets: FileSecrets, follower: Follower) -> None:
    """Publish what is good, even while the files hold something that is not."""
    # A look reads the roots last, so they are never older than the pair they come with.
    pair, roots = secrets.get(WORKLOAD_CERTIFICATE), secrets.get(TRUST_BUNDLE)
    errors = [secrets.error(name) for name in (WORKLOAD_CERTIFICATE, TRUST_BUNDLE)]
    if isinstance(pair, KeyPair) and isinstance(roots, Roots):
        try:
            follower.take(certificate_of(pair, roots.roots_pem))
        except InvalidSpiffeId as error:
            errors.append(str(error))
    if told := "; ".join(filter(None, errors)):
        follower.fail(told)


def certificate_of(pair: KeyPair, trust_bundle_pem: bytes, *, crl_pem: bytes = b"") -> Certificate:
    """Make a certificate of a pair whose leaf names one SPIFFE id; raises InvalidSpiffeId."""
    if len(pair.uris) != 1:
        raise InvalidSpiffeId(f"the certificate has {len(pair.uris)} URIs, one SPIFFE id is needed")
    return Certificate(
        private_key_pem=pair.private_key_pem,
        chain_pem=pair.chain_pem,
        trust_bundle_pem=trust_bundle_pem,
        crl_pem=crl_pem,
        spiffe_id=SpiffeId.parse(pair.uris[0]),
        serial=pair.serial,
        not_before=pair.not_before,
        not_after=pair.not_after,
    )
