"""Follows a certificate, its key and its roots in files, and publishes them as `Certificates`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

from cryptography import x509

from certclient._errors import CertificateRejected
from certclient.feed._certificates import Certificates
from certclient.feed._source_publisher import SourcePublisher
from certclient.files._file_secrets import FileSecrets, file_secrets
from certclient.files._files_config import FilesConfig
from certclient.files._secret_names import TRUST_BUNDLE, WORKLOAD_CERTIFICATE, FileSecretsConfig
from certclient.x509._acceptance import accepted_path
from certclient.x509._certificate import Certificate
from certclient.x509._chain_path import check_times, ordered_path, path_element, usable_roots
from certclient.x509._leaf_rules import check_workload
from certclient.x509._pem import KeyPair, Roots
from mesh_identity import InvalidSpiffeId, SpiffeId
from mesh_lifecycle import Clock, SystemClock, in_background


@asynccontextmanager
async def follow_files(
    config: FilesConfig, *, clock: Clock | None = None
) -> AsyncIterator[Certificates]:
    """Publish the certificate in the files whenever chain, key and roots are all valid.

    The leaf must have one SPIFFE id and lead to one of the roots. Does not wait for the files: see
    `Certificates.wait_for_first`.
    """
    chosen = clock or SystemClock()
    sources = FileSecretsConfig(
        certificate_path=config.certificate_path,
        key_path=config.key_path,
        root_path=config.root_path,
    )
    async with file_secrets(sources, clock=chosen) as secrets:
        publisher = SourcePublisher(chosen, on_request=secrets.read_again)
        async with in_background(
            _publish_changes(secrets, publisher, chosen), name="certificate files"
        ):
            try:
                yield publisher.certificates
            finally:
                publisher.close()


async def _publish_changes(secrets: FileSecrets, publisher: SourcePublisher, clock: Clock) -> None:
    combined = _PairWithRoots(publisher)
    async with asyncio.TaskGroup() as group:
        group.create_task(publisher.withdraw_when_expired(), name="certificate expiry")
        async for _ in secrets.statuses():
            combined.publish(secrets, datetime.fromtimestamp(clock.now(), UTC))


class _PairWithRoots:
    """Publishes the newest roots with the newest pair that is valid under them.

    New roots are used at once, whatever the pair: a root that was removed must not be trusted any
    longer, even if our own chain leads to it. A new pair is used only if it leads to one of the
    roots in the file; until then the last one stays.
    """

    def __init__(self, publisher: SourcePublisher) -> None:
        self._publisher = publisher
        self._used: tuple[bytes, bytes] | None = None

    def publish(self, secrets: FileSecrets, now: datetime) -> None:
        """Publish the current pair and roots, and what is wrong with the files."""
        # Roots are read after pairs, so these roots are never older than this pair.
        pair, roots = secrets.get(WORKLOAD_CERTIFICATE), secrets.get(TRUST_BUNDLE)
        errors = [secrets.error(name) for name in (WORKLOAD_CERTIFICATE, TRUST_BUNDLE)]
        certificate = self._publisher.certificates.latest
        if (
            isinstance(pair, KeyPair)
            and isinstance(roots, Roots)
            and (certificate is None or self._used != (pair.chain_pem, roots.roots_pem))
        ):
            try:
                certificate = certificate_of(pair, roots.roots_pem, now=now)
            except (InvalidSpiffeId, CertificateRejected) as rejected:
                self._used = None
                errors.append(str(rejected))
                if certificate is not None:
                    certificate = replace(certificate, trust_bundle_pem=roots.roots_pem)
            else:
                self._used = (pair.chain_pem, roots.roots_pem)
        error = "; ".join(filter(None, errors)) or None
        if certificate is not None:
            self._publisher.publish(certificate, error=error)
        elif error is not None:
            self._publisher.report_failure(error)


def certificate_of(pair: KeyPair, trust_bundle_pem: bytes, *, now: datetime) -> Certificate:
    """Make a certificate of a pair whose leaf has one SPIFFE id, checked as an authority's answer
    is.

    Raises InvalidSpiffeId or CertificateRejected. Unlike an authority's answer, the leaf may have
    names of other kinds and no key usage: the PKI that the files come from decides that.
    """
    if len(pair.uris) != 1:
        raise InvalidSpiffeId(f"the certificate has {len(pair.uris)} URIs, one SPIFFE id is needed")
    spiffe_id = SpiffeId.parse(pair.uris[0])
    leaf, *others = x509.load_pem_x509_certificates(pair.chain_pem)
    checked_leaf = path_element(leaf, "the certificate")
    check_workload(checked_leaf)
    roots, left_out = usable_roots(x509.load_pem_x509_certificates(trust_bundle_pem), now)
    if not roots:
        raise CertificateRejected(f"there is no root it could lead to: {'; '.join(left_out[:3])}")
    path = ordered_path(checked_leaf, others, roots)
    for element in path:
        check_times(element, now)
    checked = accepted_path(
        path, roots, private_key_pem=pair.private_key_pem, spiffe_id=spiffe_id, now=now
    )
    # The chain and roots as in the files: roots that are no CA certificates may be pinned there.
    return replace(
        checked,
        chain_pem=pair.chain_pem,
        trust_bundle_pem=trust_bundle_pem,
        not_after=min(checked.not_after, pair.not_after),
    )
