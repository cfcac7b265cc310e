"""Generates the secrets of a stream: those that it names and that exist.

A name without a secret is answered when there is one.
"""

import asyncio
import logging
from collections.abc import Iterable

from mesh_listening import PeerCredentials
from mesh_sds.secrets._envoy_secret import SecretResource, secret_resource
from mesh_sds.secrets._private_key_provider import PrivateKeyProvider
from mesh_sds.secrets._secrets import Secret, SecretSource, TrustBundle
from xds_server import Client, ConfigKey, Generated, PushRequest, Resource, Watch

log = logging.getLogger("mesh_sds")

_KIND = "Secret"


class SecretGenerator:
    """Gets secrets from the source, and packs each once, however many streams ask for it.

    failing: the names for which the source raised last. `failures` is set whenever it raises.
    """

    def __init__(
        self,
        source: SecretSource,
        *,
        failures: asyncio.Event,
        provider: PrivateKeyProvider | None = None,
    ) -> None:
        self._source = source
        self._failures = failures
        self._provider = provider
        self._packed: dict[str, tuple[Secret, SecretResource]] = {}
        self.failing: set[str] = set()

    def generate(
        self,
        client: Client[PeerCredentials | None],
        watch: Watch,
        push: PushRequest | None,
    ) -> Generated | None:
        """Return the secrets that are asked for or changed; None if none of them is watched."""
        del client
        names = watch.names if push is None else _changed_and_watched(watch, push)
        if not names:
            return None
        certificates: dict[str, Resource] = {}
        bundles: dict[str, Resource] = {}
        failed: set[str] = set()
        for name in sorted(names):
            try:
                found = self.get(name)
            except _SourceFailed:
                failed.add(name)
                continue
            if found is not None:
                secret, resource = found
                target = bundles if isinstance(secret, TrustBundle) else certificates
                target[name] = resource
        # Bundles first: a certificate may chain to a root that is new in the bundle.
        existing = bundles | certificates
        # The first answer names no removals: the client waits for names that don't exist yet.
        removed = frozenset[str]() if push is None else names.difference(existing, failed)
        return Generated(resources=tuple(existing.values()), removed=removed, partial=bool(failed))

    def get(self, name: str) -> tuple[Secret, SecretResource] | None:
        """Return a secret and its packed form; None if there is none. Raises _SourceFailed."""
        try:
            secret = self._source.get(name)
            if secret is None:
                self._packed.pop(name, None)
                self.failing.discard(name)
                return None
            packed = self._packed.get(name)
            if packed is None or packed[0] != secret:
                resource = secret_resource(name, secret, provider=self._provider)
                packed = self._packed[name] = (secret, resource)
        except Exception as error:  # The source failed; the other names are served all the same.
            if name not in self.failing:
                log.exception("secret source raised, asking again", extra={"secret": name})
            self.failing.add(name)
            self._failures.set()
            raise _SourceFailed(name) from error
        self.failing.discard(name)
        return packed

    def bundle_versions(self, names: Iterable[str]) -> dict[str, str]:
        """Return the version of each of these names that is a trust bundle."""
        versions = {}
        for name in names:
            try:
                found = self.get(name)
            except _SourceFailed:
                continue
            if found is not None and isinstance(found[0], TrustBundle):
                versions[name] = found[1].version
        return versions


class _SourceFailed(Exception):
    """The source raised instead of returning a secret; the log has its exception."""


def push_of(names: Iterable[str]) -> PushRequest:
    """Return the request to push these names."""
    return PushRequest(
        incremental=True,
        configs_updated=frozenset(ConfigKey(kind=_KIND, name=n, namespace="") for n in names),
        triggers=("secret",),
    )


def changed_names(push: PushRequest) -> frozenset[str]:
    """Return the names that a push is about; empty if it is about all."""
    return frozenset(key.name for key in push.configs_updated if key.kind == _KIND)


def _changed_and_watched(watch: Watch, push: PushRequest) -> frozenset[str]:
    return watch.names & changed_names(push) if push.configs_updated else watch.names
