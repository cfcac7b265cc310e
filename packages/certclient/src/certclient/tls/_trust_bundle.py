"""Adds roots to the trust bundle, and revocation lists, beyond those of the authority.

`with_trust` wraps any `Certificates` and publishes the same certificates with more in their trust
bundle. Leaf, bundle and lists are one value, so no subscriber can get a leaf before the bundle that
it needs.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

from msgspec import structs

from certclient.feed._certificates import Certificates, RotationStatus
from certclient.feed._feed import Feed
from certclient.files._file_secrets import FileSecrets, file_secrets
from certclient.files._secret_names import FileSecretsConfig, revocation_name, root_name
from certclient.tls._trust_config import TrustConfig
from certclient.x509._certificate import Certificate
from certclient.x509._pem import RevocationLists, Roots, merged_roots, read_roots
from mesh_lifecycle import Clock, SystemClock, in_background

log = logging.getLogger("certclient")


class TrustingCertificates(Certificates):
    """Certificates with further roots and revocation lists; created by `with_trust`."""

    def __init__(self, source: Certificates, feed: Feed[RotationStatus], *, clock: Clock) -> None:
        super().__init__(feed, on_request=source.request_renewal)
        self._clock = clock
        self._source = source
        self._own = feed
        self._set_anchors = self._from_file = self._crl = b""
        self._federated: tuple[tuple[str, bytes], ...] = ()
        self._combined_parts: tuple[object, ...] | None = None
        self._combination: Certificate | None = None
        self._faults: asyncio.Future[tuple[str, ...]] = asyncio.get_running_loop().create_future()

    async def first_faults(self) -> tuple[str, ...]:
        """Wait until the files were first read; return what was wrong with them."""
        return await asyncio.shield(self._faults)

    def set_anchors(self, anchors_pem: bytes) -> None:
        """Trust these further roots of our own trust domain, in place of those set before.

        Setting the same roots again does nothing. Otherwise subscribers get the new bundle at once,
        and a renewal is requested, because the authority may sign by another root now. Empty for
        none; raises InvalidPem if no root in it is valid. Expired roots and certificates that are
        no CA's are left out and logged.
        """
        anchors = b""
        if anchors_pem.strip():
            now = datetime.fromtimestamp(self._clock.now(), UTC)
            read = read_roots(anchors_pem, now=now, authorities_only=True)
            anchors = read.roots_pem
            if read.skipped and anchors != self._set_anchors:
                log.warning(
                    "roots left out of the trust bundle", extra={"reasons": list(read.skipped[:10])}
                )
        if anchors == self._set_anchors:
            return
        self._set_anchors = anchors
        self._combine()
        self._source.request_renewal()

    def _read_files(self, secrets: FileSecrets, config: TrustConfig) -> None:
        """Use the current content of the files."""
        if config.anchors_path is not None:
            roots = secrets.get(root_name(config.anchors_path))
            self._from_file = roots.roots_pem if isinstance(roots, Roots) else b""
        if config.crl_path is not None:
            lists = secrets.get(revocation_name(config.crl_path))
            self._crl = lists.crl_pem if isinstance(lists, RevocationLists) else b""
        bundles = ((name, secrets.get(root_name(path))) for name, path in config.federated)
        self._federated = tuple(
            (name, roots.roots_pem) for name, roots in bundles if isinstance(roots, Roots)
        )
        self._combine()
        names = config.secret_names()
        if not self._faults.done() and secrets.status.states.keys() >= set(names):
            self._faults.set_result(tuple(filter(None, map(secrets.error, names))))

    def _combine(self) -> None:
        """Publish the source's status with the added roots and lists, if that makes a change."""
        status = self._source.status
        parts = (status.certificate, self._set_anchors, self._from_file, self._crl, self._federated)
        if parts != self._combined_parts:
            self._combined_parts, self._combination = parts, self._combined(status.certificate)
        combined = structs.replace(status, certificate=self._combination)
        if combined != self._own.value:
            self._own.publish(combined)

    def _combined(self, certificate: Certificate | None) -> Certificate | None:
        added = self._set_anchors or self._from_file or self._crl or self._federated
        if certificate is None or not added:
            return certificate
        return replace(
            certificate,
            trust_bundle_pem=merged_roots(
                certificate.trust_bundle_pem, self._set_anchors, self._from_file
            ),
            crl_pem=certificate.crl_pem + self._crl,
            federated_bundles=(*self._federated, *certificate.federated_bundles),
        )


@asynccontextmanager
async def with_trust(
    certificates: Certificates, config: TrustConfig | None = None, *, clock: Clock | None = None
) -> AsyncIterator[TrustingCertificates]:
    """Add roots and revocation lists to every certificate that `certificates` publishes.

    A file that does not exist yet adds nothing until it does. What is wrong with a file is logged.
    """
    config = config or TrustConfig()
    feed = Feed(RotationStatus())
    combined = TrustingCertificates(certificates, feed, clock=clock or SystemClock())
    async with AsyncExitStack() as stack:
        secrets = None
        if config != TrustConfig():
            source = file_secrets(FileSecretsConfig(), clock=clock)
            secrets = await stack.enter_async_context(source)
            combined._read_files(secrets, config)
        else:
            combined._faults.set_result(())
        combined._combine()
        following = _follow(certificates, secrets, combined, config)
        await stack.enter_async_context(in_background(following, name="trust bundle"))
        try:
            yield combined
        finally:
            feed.close()


async def _follow(
    certificates: Certificates,
    secrets: FileSecrets | None,
    combined: TrustingCertificates,
    config: TrustConfig,
) -> None:
    async def from_files(secrets: FileSecrets) -> None:
        async for _ in secrets.statuses():
            combined._read_files(secrets, config)

    async with asyncio.TaskGroup() as group:
        if secrets is not None:
            group.create_task(from_files(secrets), name="trust files")
        async for _ in certificates.statuses():
            combined._combine()
    # Reached only if the source ended first, when the caller is about to leave this block too.
    await asyncio.Event().wait()
