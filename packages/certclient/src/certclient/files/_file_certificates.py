"""Mounted files as an issuer of certificates, for all that takes `Certificates`."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from certclient._errors import CertificateRejected
from certclient.feed._certificates import Certificates
from certclient.feed._source_publisher import Follower
from certclient.files._file_secrets import FileSecrets, file_secrets
from certclient.files._secret_names import TRUST_BUNDLE, WORKLOAD_CERTIFICATE, FileSecretsConfig
from certclient.x509._acceptance import accepted_path
from certclient.x509._certificate import Certificate
from certclient.x509._chain_path import check_times, ordered_path, path_element, usable_roots
from certclient.x509._leaf_rules import check_workload
from certclient.x509._pem import KeyPair, Roots
from mesh_identity import InvalidSpiffeId, SpiffeId
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


def mounted_files(
    base: Path, *, is_file: Callable[[Path], bool] = Path.is_file
) -> FilesConfig | None:
    """Return the certificate that is mounted where Istio looks for one below `base`.

    That is the workload's SPIFFE credentials, by Istio's names or by GKE's, and then `etc/certs`.
    Only a place where all three files are counts; None if there is none. is_file: looks; by itself
    it waits for as long as the file system takes.
    """
    for directory, names in _WELL_KNOWN:
        certificate, key, root = (base / directory / name for name in names)
        if all(is_file(path) for path in (certificate, key, root)):
            return FilesConfig(certificate_path=certificate, key_path=key, root_path=root)
    return None


@asynccontextmanager
async def follow_files(
    config: FilesConfig, *, clock: Clock | None = None
) -> AsyncIterator[Certificates]:
    """Publish what the files hold, whenever chain, key and roots are all good.

    The leaf must have one SPIFFE id and lead to one of the roots. Does not wait for the files: see
    `wait_for_first`.
    """
    chosen = clock or SystemClock()
    sources = FileSecretsConfig(
        certificate_path=config.certificate_path,
        key_path=config.key_path,
        root_path=config.root_path,
    )
    async with file_secrets(sources, clock=chosen) as secrets:
        follower = Follower(chosen, ask=secrets.look)
        async with in_background(_following(secrets, follower, chosen), name="certificate files"):
            try:
                yield follower.certificates
            finally:
                follower.close()


async def _following(secrets: FileSecrets, follower: Follower, clock: Clock) -> None:
    published = _Published(follower)
    async with asyncio.TaskGroup() as group:
        group.create_task(follower.watch_expiry(), name="certificate expiry")
        async for _ in secrets.looks():
            published.take(secrets, datetime.fromtimestamp(clock.now(), UTC))


class _Published:
    """Publishes what is good, even while the files hold something that is not.

    Roots are taken as they come: somebody may have taken one away for a reason, and then it must
    not be trusted for as long as our own chain leads to it. The pair is only taken when it is good
    under the roots that are there; until one is, the last one stays.
    """

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._taken: tuple[bytes, bytes] | None = None

    def take(self, secrets: FileSecrets, now: datetime) -> None:
        """Publish what the files hold, and what is wrong with it."""
        # A look reads the roots last, so they are never older than the pair they come with.
        pair, roots = secrets.get(WORKLOAD_CERTIFICATE), secrets.get(TRUST_BUNDLE)
        errors = [secrets.error(name) for name in (WORKLOAD_CERTIFICATE, TRUST_BUNDLE)]
        certificate = self._follower.certificates.latest
        if (
            isinstance(pair, KeyPair)
            and isinstance(roots, Roots)
            and (certificate is None or self._taken != (pair.chain_pem, roots.roots_pem))
        ):
            try:
                certificate = certificate_of(pair, roots.roots_pem, now=now)
            except (InvalidSpiffeId, CertificateRejected) as error:
                self._taken = None
                errors.append(str(error))
                if certificate is not None:
                    certificate = replace(certificate, trust_bundle_pem=roots.roots_pem)
            else:
                self._taken = (pair.chain_pem, roots.roots_pem)
        told = "; ".join(filter(None, errors)) or None
        if certificate is not None:
            self._follower.take(certificate, error=told)
        elif told is not None:
            self._follower.fail(told)


def certificate_of(pair: KeyPair, trust_bundle_pem: bytes, *, now: datetime) -> Certificate:
    """Make a certificate of a pair whose leaf names one SPIFFE id, checked as one that is issued.

    Raises InvalidSpiffeId or CertificateRejected. Names of other kinds may be there, and a key
    usage may be missing: whoever runs the files' PKI decides.
    """
    if len(pair.uris) != 1:
        raise InvalidSpiffeId(f"the certificate has {len(pair.uris)} URIs, one SPIFFE id is needed")
    spiffe_id = SpiffeId.parse(pair.uris[0])
    leaf, *others = x509.load_pem_x509_certificates(pair.chain_pem)
    judged = path_element(leaf, "the certificate")
    check_workload(judged)
    roots, left_out = usable_roots(x509.load_pem_x509_certificates(trust_bundle_pem), now)
    if not roots:
        raise CertificateRejected(f"there is no root it could lead to: {'; '.join(left_out[:3])}")
    path = ordered_path(judged, others, roots)
    for element in path:
        check_times(element, now)
    checked = accepted_path(
        path, roots, private_key_pem=pair.private_key_pem, spiffe_id=spiffe_id, now=now
    )
    # As the files have them: in them, roots may be pinned that are no CA certificates.
    return replace(
        checked,
        chain_pem=pair.chain_pem,
        trust_bundle_pem=trust_bundle_pem,
        not_after=min(checked.not_after, pair.not_after),
    )
