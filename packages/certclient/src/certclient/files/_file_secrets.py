"""Follows the files of certificates and roots, and publishes them under Istio's secret names.

All files are read again whenever one of them may have changed. Their content is published only if
it is valid: a pair whose key fits, a bundle with a valid root. Otherwise the last good secret
stays, and the files are read again at the next change.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from types import MappingProxyType
from typing import Self

import msgspec
from msgspec.structs import replace

from certclient._errors import FeedClosed, SourceUnavailable
from certclient.feed._feed import Feed
from certclient.files._secret_names import (
    TRUST_BUNDLE,
    WORKLOAD_CERTIFICATE,
    FileSecretsConfig,
    PairFiles,
    SecretFiles,
    files_of,
    paths_of,
)
from certclient.files._secret_reader import UNFINISHED_S, FileState, Secret, SecretReader
from certclient.x509._pem import KeyPair, RevocationLists, Roots
from mesh_filewatch import (
    FileCall,
    FileCalls,
    FileWatch,
    WatchDirectory,
    watching,
)
from mesh_lifecycle import Clock, SystemClock, in_background

log = logging.getLogger("certclient.files")

MAX_NAMES = 1000
"""The most names whose files are read; further names are refused."""
_SETTLE_S, _SETTLE_READS = 0.05, 5
"""Files that become invalid may be half-way to their next state. They are read again this often,
with this pause, before the error is published."""

_OWN = (WORKLOAD_CERTIFICATE, TRUST_BUNDLE)


class FileStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of all names, as one snapshot, and counters.

    passes: how often the files were read.
    watch_failures: how often a directory could not be watched.
    load_failures: how often files became invalid.
    """

    states: Mapping[str, FileState] = msgspec.field(default_factory=lambda: MappingProxyType({}))
    passes: int = 0
    watch_failures: int = 0
    load_failures: int = 0


class FileSecrets:
    """The secrets that files hold; a secret server calls `get` and `changes`."""

    def __init__(
        self, config: FileSecretsConfig, feed: Feed[FileStatus], *, read_again: Callable[[], None]
    ) -> None:
        self._config = config
        self._feed = feed
        self._read_again = read_again
        self._wanted: dict[str, SecretFiles] = {}
        self._is_full = False

    def get(self, name: str) -> Secret | None:
        """Return the last good secret of a name; None if there is none yet.

        Never blocks: the files of a new name are read soon, and `changes` then yields the name.
        """
        if name not in self._wanted and (files := files_of(name, self._config)) is not None:
            self._add(name, files)
        state = self._feed.value.states.get(name)
        return state.secret if state is not None else None

    def _add(self, name: str, files: SecretFiles) -> None:
        if len(self._wanted) >= MAX_NAMES:
            if not self._is_full:
                log.warning(
                    "certificate files are not read for further names",
                    extra={"names": MAX_NAMES, "refused": name[:300]},
                )
            self._is_full = True
            return
        self._is_full = False
        self._wanted[name] = files
        self._read_again()

    def forget_all_but(self, names: Collection[str]) -> None:
        """Stop reading the files of all names but these, `default` and `ROOTCA`.

        A name that is requested later is read again, as a new one.
        """
        for name in self._wanted.keys() - _OWN - set(names):
            del self._wanted[name]

    def serves(self, name: str) -> bool:
        """Return whether the name is one of files, whether or not they exist."""
        return files_of(name, self._config) is not None

    def error(self, name: str) -> str | None:
        """Return what is wrong with a name's files now; None if nothing, or the name is unknown."""
        state = self._feed.value.states.get(name)
        return state.error if state is not None else None

    @property
    def status(self) -> FileStatus:
        """The state of all names, as one snapshot."""
        return self._feed.value

    def read_again(self) -> None:
        """Read the files again soon, as after a change."""
        self._read_again()

    async def fetch(self, name: str) -> Secret:
        """Read a name's files and return their secret; raises SourceUnavailable if invalid."""
        if not self.serves(name):
            raise SourceUnavailable(f"{name[:300]!r} is not the name of files")
        version = self._feed.version
        self.get(name)
        if name not in self._wanted:
            raise SourceUnavailable(f"the files of {MAX_NAMES} names are read already")
        self._read_again()
        while True:
            version = await self._feed.wait_newer(version)
            state = self._feed.value.states.get(name)
            if state is not None and state.error is not None:
                raise SourceUnavailable(state.error)
            if state is not None and state.secret is not None:
                return state.secret

    def changes(self) -> "FileSecretChanges":
        """Iterate over sets of names whose secret changed; the first has all names with a secret.

        A slow reader gets several changes as one, and always the last.
        """
        return FileSecretChanges(self._feed)

    async def statuses(self) -> AsyncIterator[FileStatus]:
        """Yield the status after each reading of the files; a slow reader gets the newest only.

        Ends when the block of `file_secrets` is left.
        """
        version = 0
        with suppress(FeedClosed):
            while True:
                version = await self._feed.wait_newer(version)
                yield self._feed.value


class FileSecretChanges:
    """Iterates over sets of names, for one reader."""

    def __init__(self, feed: Feed[FileStatus]) -> None:
        self._feed = feed
        self._version = -1
        self._seen: dict[str, Secret | None] = {}

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> frozenset[str]:
        try:
            while True:
                self._version = await self._feed.wait_newer(self._version)
                states = self._feed.value.states
                now = {name: state.secret for name, state in states.items()}
                changed = {name for name in now if now[name] != self._seen.get(name)}
                self._seen = now
                if changed:
                    return frozenset(changed)
        except FeedClosed:
            raise StopAsyncIteration from None


@asynccontextmanager
async def file_secrets(
    config: FileSecretsConfig,
    *,
    clock: Clock | None = None,
    watch_directory: WatchDirectory | None = None,
) -> AsyncIterator[FileSecrets]:
    """Follow the files of `default`, `ROOTCA` and of every name that is requested.

    Does not wait for the files and does not fail without them.
    watch_directory: replaces inotify in tests.
    """
    feed = Feed(FileStatus())
    async with watching(watch_directory=watch_directory) as watch:
        secrets = FileSecrets(config, feed, read_again=watch.mark_changed)
        for name in _OWN:
            secrets.get(name)
        reader = SecretReader(clock or SystemClock(), config.output_directory)
        following = _follow(secrets._wanted, feed, watch, reader)
        async with in_background(following, name="certificate files in"):
            try:
                yield secrets
            finally:
                feed.close()


async def _follow(
    wanted: Mapping[str, SecretFiles],
    feed: Feed[FileStatus],
    watch: FileWatch,
    reader: SecretReader,
) -> None:
    calls: FileCalls[str, FileState] = FileCalls(watch.mark_changed)
    try:
        while True:
            requested, old = dict(wanted), feed.value
            states: dict[str, FileState] = {}
            for _ in range(_SETTLE_READS):
                await watch.follow(path for files in requested.values() for path in paths_of(files))
                states = await _read(requested, old.states, reader, calls)
                if not _became_invalid(old.states, states):
                    break
                await asyncio.sleep(_SETTLE_S)
            feed.publish(
                FileStatus(
                    states=MappingProxyType(states),
                    passes=old.passes + 1,
                    watch_failures=watch.failures,
                    load_failures=old.load_failures + _log_changes(old.states, states),
                )
            )
            if wanted.keys() == requested.keys():
                await watch.wait(UNFINISHED_S / 4 if reader.waits_for_writer else None)
    finally:
        await calls.close()


async def _read(
    requested: Mapping[str, SecretFiles],
    old: Mapping[str, FileState],
    reader: SecretReader,
    calls: FileCalls[str, FileState],
) -> dict[str, FileState]:
    """Read all names; a name on a file system that hangs keeps its last secret."""
    reader.forget_all_but(requested.keys())
    states: dict[str, FileState] = {}
    # Pairs before roots, so that the roots are never older than a pair that leads to them.
    for pairs in (True, False):
        work = {
            name: FileCall(
                str(paths_of(files)[0]), partial(reader.state, name, files, old.get(name))
            )
            for name, files in requested.items()
            if isinstance(files, PairFiles) is pairs
        }
        for name, result in (await calls.run(work)).items():
            if isinstance(result, FileState):
                states[name] = result
            else:
                shown = " and ".join(map(str, paths_of(requested[name])))
                error = f"{shown} cannot be read: {result.strerror}"
                states[name] = replace(old.get(name, FileState()), error=error)
    return {name: states[name] for name in requested}


def _became_invalid(old: Mapping[str, FileState], new: Mapping[str, FileState]) -> bool:
    return any(
        state.error is not None and (before := old.get(name)) is not None and before.error is None
        for name, state in new.items()
    )


def _log_changes(old: Mapping[str, FileState], new: Mapping[str, FileState]) -> int:
    """Log the changes; return how many names became invalid."""
    failures = 0
    for name, state in new.items():
        before = old.get(name, FileState())
        if state.error is not None and state.error != before.error:
            failures += 1
            log.warning(
                "certificate files are not valid, keeping their last good content"
                if state.secret is not None
                else "certificate files are not valid, there is no secret to serve yet",
                extra={"secret": name, "reason": state.error},
            )
        elif state.secret != before.secret:
            log.info("certificate files changed", extra={"secret": name, **_facts(state.secret)})
    return failures


def _facts(secret: Secret | None) -> dict[str, object]:
    match secret:
        case KeyPair(serial=serial, not_after=not_after):
            return {"serial": f"{serial:x}", "not_after": not_after.isoformat()}
        case Roots(skipped=skipped):
            return {"skipped": list(skipped)}
        case RevocationLists() | None:
            return {}
