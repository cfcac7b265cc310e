"""Which secrets a stream gets: those it names that exist. The rest it gets when they do."""

import asyncio
import logging
from collections.abc import Iterable

from mesh_listening import PeerCredentials
from mesh_sds.secrets._envoy_secret import secret_resource
from mesh_sds.secrets._private_key_provider import PrivateKeyProvider
from mesh_sds.secrets._secrets import Secret, SecretSource, TrustBundle
from xds_server import Client, ConfigKey, Generated, PushRequest, Resource, Watch

log = logging.getLogger("mesh_sds")

_KIND = "Secret"


class SecretGenerator:
    """Answers from the source, and packs each secret once however many streams want it.

    failing: names whose secret could not be got, until it can; `failures` is set at each failure.
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
        self._packed: dict[str, tuple[Secret, Resource]] = {}
        self.failing: set[str] = set()

    def generate(
        self,
        client: Client[PeerCredentials | None],
        watch: Watch,
        push: PushRequest | None,
    ) -> Generated | None:
        """Give what exists of the names asked for or changed; None if none of them is watched."""
        del client
        names = watch.names if push is None else _concerned(watch, push)
        if not names:
            return None
        certificates: dict[str, Resource] = {}
        bundles: dict[str, Resource] = {}
        failed: set[str] = set()
        for name in sorted(names):
            try:
                secret = self.get(name)
            except _SourceFailed:
                failed.add(name)
                continue
            if secret is not None:
                target = bundles if isinstance(secret[0], TrustBundle) else certificates
                target[name] = secret[1]
        # A certificate may chain to a root that is new in the bundle beside it.
        given = bundles | certificates
        # A name that never existed is not said to be gone: its client waits for it.
        removed = frozenset[str]() if push is None else names.difference(given, failed)
        return Generated(resources=tuple(given.values()), removed=removed, partial=bool(failed))

    def get(self, name: str) -> tuple[Secret, Resource] | None:
        """Return a secret and its packed form. Raises what `generate` takes for a failure."""
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
        except Exception as error:  # The source's fault; it costs this name, not the others.
            if name not in self.failing:
                log.exception("no secret from its source, asking again", extra={"secret": name})
            self.failing.add(name)
            self._failures.set()
            raise _SourceFailed(name) from error
        self.failing.discard(name)
        return packed

    def bundle_versions(self, names: Iterable[str]) -> dict[str, str]:
        """Tell which of these names are trust bundles, and the version of each."""
        versions = {}
        for name in names:
            try:
                secret = self.get(name)
            except _SourceFailed:
                continue
            if secret is not None and isinstance(secret[0], TrustBundle):
                versions[name] = secret[1].version
        return versions


class _SourceFailed(Exception):
    """The source raised instead of giving a secret; it is in the log."""


def push_of(names: Iterable[str]) -> PushRequest:
    """Make the request to push these names."""
    return PushRequest(
        incremental=True,
        configs_updated=frozenset(ConfigKey(kind=_KIND, name=n, namespace="") for n in names),
        triggers=("secret",),
    )


def changed_names(push: PushRequest) -> frozenset[str]:
    """Name what a push is about; nothing if it is about everything."""
    return frozenset(key.name for key in push.configs_updated if key.kind == _KIND)


def _concerned(watch: Watch, push: PushRequest) -> frozenset[str]:
    return watch.names & changed_names(push) if push.configs_updated else watch.names
