"""Certificates and roots that somebody else puts into files, under Istio's secret names.

Everything is read again whenever anything may have changed, and what was read is published only
if it is whole: a pair whose key fits, a bundle with a valid root. What is not whole leaves the
last good state in place, and the event that completes it brings the next look.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Self, assert_never

from certclient._errors import CertClientError, FeedClosed, InvalidPem, SourceUnavailable
from certclient.feed._feed import Feed
from certclient.files._secret_names import (
    TRUST_BUNDLE,
    WORKLOAD_CERTIFICATE,
    FileSecretsConfig,
    PairFiles,
    RevocationFile,
    RootFile,
    SecretFiles,
    files_of,
    paths_of,
)
from certclient.x509._pem import (
    MAX_PEM_BYTES,
    KeyPair,
    RevocationLists,
    Roots,
    is_unfinished,
    read_pair,
    read_revocation_lists,
    read_roots,
)
from mesh_filewatch import (
    FileCall,
    FileCalls,
    FileWatch,
    WatchDirectory,
    read_bytes,
    watching,
)
from mesh_lifecycle import Clock, SystemClock, in_background

log = logging.getLogger("certclient")

MAX_NAMES = 1000
"""Of files that are read for those who asked by name: more are not taken on."""
_GRACE_S, _GRACE_LOOKS = 0.05, 5
"""Files that were good and are not may be half-way to their next state: so often, after such a
pause, they are looked at again before anybody is told."""
_UNFINISHED_S = 2.0
"""A bundle that ends within a certificate is being written; for this long, its end is awaited."""

_OWN = (WORKLOAD_CERTIFICATE, TRUST_BUNDLE)

Secret = KeyPair | Roots | RevocationLists


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """What is known of one name: the last good secret, and what is wrong with the files now."""

    secret: Secret | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """All names as one snapshot, and what was counted.

    passes: how often the files were looked at; watch_failures: how often a directory could not be
    watched; load_failures: how often files turned out not to be whole.
    """

    states: Mapping[str, FileState] = field(default_factory=lambda: MappingProxyType({}))
    passes: int = 0
    watch_failures: int = 0
    load_failures: int = 0


class FileSecrets:
    """The secrets of files. `get` and `changes` are what a secret server asks of its source."""

    def __init__(
        self, config: FileSecretsConfig, feed: Feed[FileStatus], *, look: Callable[[], None]
    ) -> None:
        self._config = config
        self._feed = feed
        self._look = look
        self._wanted: dict[str, SecretFiles] = {}
        self._is_full = False

    def get(self, name: str) -> Secret | None:
        """Return the last good state of a name; None if there is none yet.

        Never blocks: a name that is asked for the first time is read soon, and told by `changes`.
        """
        if name not in self._wanted and (files := files_of(name, self._config)) is not None:
            self._take(name, files)
        state = self._feed.value.states.get(name)
        return state.secret if state is not None else None

    def _take(self, name: str, files: SecretFiles) -> None:
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
        self._look()

    def forget_all_but(self, names: Collection[str]) -> None:
        """Read the files of no other names from now on, but `default` and `ROOTCA`.

        One that is asked for again is read again, as if it had never been.
        """
        for name in self._wanted.keys() - _OWN - set(names):
            del self._wanted[name]

    def serves(self, name: str) -> bool:
        """Say whether files stand behind the name, whether or not they are there."""
        return files_of(name, self._config) is not None

    def error(self, name: str) -> str | None:
        """Say what is wrong with a name's files now; None if nothing is, or none are known."""
        state = self._feed.value.states.get(name)
        return state.error if state is not None else None

    @property
    def status(self) -> FileStatus:
        """Everything known now."""
        return self._feed.value

    def look(self) -> None:
        """Read the files again soon."""
        self._look()

    async def fetch(self, name: str) -> Secret:
        """Wait for one look at a name's files; raises SourceUnavailable if they are not good."""
        if not self.serves(name):
            raise SourceUnavailable(f"no file stands behind the secret {name[:300]!r}")
        version = self._feed.version
        self.get(name)
        if name not in self._wanted:
            raise SourceUnavailable(f"the files of {MAX_NAMES} names are read already")
        self._look()
        while True:
            version = await self._feed.wait_newer(version)
            state = self._feed.value.states.get(name)
            if state is not None and state.error is not None:
                raise SourceUnavailable(state.error)
            if state is not None and state.secret is not None:
                return state.secret

    def changes(self) -> "FileSecretChanges":
        """Iterate over the names whose secret changed, what is known at once first.

        A slow reader gets several changes as one, and always the last.
        """
        return FileSecretChanges(self._feed)

    async def looks(self) -> AsyncIterator[FileStatus]:
        """Yield what is known after each look at the files; coalesced. Ends with the source."""
        version = 0
        with suppress(FeedClosed):
            while True:
                version = await self._feed.wait_newer(version)
                yield self._feed.value


class FileSecretChanges:
    """Iterator over sets of names, for one reader."""

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
    """Follow the files of `default`, `ROOTCA` and of every name that is asked for.

    Does not wait for the files and does not fail without them.
    watch_directory: replaces inotify in tests.
    """
    feed = Feed(FileStatus())
    async with watching(watch_directory=watch_directory) as watch:
        secrets = FileSecrets(config, feed, look=watch.mark_changed)
        for name in _OWN:
            secrets.get(name)
        reader = _Reader(clock or SystemClock(), config.output_directory)
        following = _follow(secrets._wanted, feed, watch, reader)
        async with in_background(following, name="certificate files in"):
            try:
                yield secrets
            finally:
                feed.close()


async def _follow(
    wanted: Mapping[str, SecretFiles], feed: Feed[FileStatus], watch: FileWatch, reader: "_Reader"
) -> None:
    lookups: FileCalls[str, FileState] = FileCalls(watch.mark_changed)
    try:
        while True:
            asked, old = dict(wanted), feed.value
            states: dict[str, FileState] = {}
            for _ in range(_GRACE_LOOKS):
                await watch.follow(path for files in asked.values() for path in paths_of(files))
                states = await _read(asked, old.states, reader, lookups)
                if not _turned_bad(old.states, states):
                    break
                await asyncio.sleep(_GRACE_S)
            feed.publish(
                FileStatus(
                    states=MappingProxyType(states),
                    passes=old.passes + 1,
                    watch_failures=watch.failures,
                    load_failures=old.load_failures + _log_news(old.states, states),
                )
            )
            if wanted.keys() == asked.keys():
                await watch.wait(_UNFINISHED_S / 4 if reader.unfinished else None)
    finally:
        await lookups.close()


async def _read(
    asked: Mapping[str, SecretFiles],
    old: Mapping[str, FileState],
    reader: "_Reader",
    lookups: FileCalls[str, FileState],
) -> dict[str, FileState]:
    """Read all names; one whose file system hangs keeps its last state until that answers."""
    reader.forget_all_but(asked.keys())
    states: dict[str, FileState] = {}
    # Pairs before roots, so that the roots are never older than a pair that needs them.
    for pairs in (True, False):
        work = {
            name: FileCall(
                str(paths_of(files)[0]), partial(reader.state, name, files, old.get(name))
            )
            for name, files in asked.items()
            if isinstance(files, PairFiles) is pairs
        }
        for name, answer in (await lookups.run(work)).items():
            if isinstance(answer, FileState):
                states[name] = answer
            else:
                shown = " and ".join(map(str, paths_of(asked[name])))
                told = f"{shown} cannot be read: {answer.strerror}"
                states[name] = replace(old.get(name, FileState()), error=told)
    return {name: states[name] for name in asked}


def _turned_bad(old: Mapping[str, FileState], new: Mapping[str, FileState]) -> bool:
    return any(
        state.error is not None and (before := old.get(name)) is not None and before.error is None
        for name, state in new.items()
    )


def _log_news(old: Mapping[str, FileState], new: Mapping[str, FileState]) -> int:
    """Log what became bad or good; return how many became bad."""
    failures = 0
    for name, state in new.items():
        before = old.get(name, FileState())
        if state.error is not None and state.error != before.error:
            failures += 1
            log.warning(
                "certificate files are not good, keeping what they last held"
                if state.secret is not None
                else "certificate files are not good, there is nothing to serve yet",
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


class _Reader:
    """Reads files, in threads; remembers since when some of them are unfinished."""

    def __init__(self, clock: Clock, output_directory: Path | None) -> None:
        self._clock = clock
        self._output_directory = output_directory
        self._since: dict[str, float] = {}
        self._taken_unfinished: dict[str, bytes] = {}
        self._hard_links: dict[Path, tuple[int, int]] = {}

    @property
    def unfinished(self) -> bool:
        return bool(self._since)

    def forget_all_but(self, names: Collection[str]) -> None:
        for known in (self._since, self._taken_unfinished):
            for name in known.keys() - set(names):
                known.pop(name, None)

    def state(self, name: str, files: SecretFiles, before: FileState | None) -> FileState:
        before = before or FileState()
        try:
            secret = self._secret(name, files)
        except CertClientError as error:
            return replace(before, error=str(error))
        if isinstance(secret, KeyPair) and isinstance(before.secret, KeyPair):
            # The same chain with its key written another way is no news to anybody.
            same = secret.chain_pem == before.secret.chain_pem
            return FileState(secret=before.secret if same else secret)
        return FileState(secret=secret)

    def _secret(self, name: str, files: SecretFiles) -> Secret:
        try:
            match files:
                case PairFiles(certificate, key):
                    # One after the other, so what is read may be of two states of the files. Then
                    # the key does not fit, or an event is on its way that brings the next look.
                    return read_pair(
                        self._content(certificate), self._content(key), now=self._now()
                    )
                case RootFile(root, others):
                    content = self._content(_first_there((root, *others)))
                    self._check_finished(name, content)
                    return read_roots(content, now=self._now())
                case RevocationFile(crl):
                    return read_revocation_lists(self._content(crl))
                case _:
                    assert_never(files)
        except InvalidPem as error:
            shown = " and ".join(map(str, paths_of(files)))
            raise InvalidPem(f"{shown}: {error}") from error

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now(), UTC)

    def _check_finished(self, name: str, content: bytes) -> None:
        if not is_unfinished(content) or self._taken_unfinished.get(name) == content:
            self._since.pop(name, None)
            return
        since = self._since.setdefault(name, self._clock.monotonic())
        if self._clock.monotonic() - since < _UNFINISHED_S:
            raise InvalidPem("the last certificate is cut short")
        # Nobody is writing any more: take what is whole, as Envoy and Istio do.
        self._since.pop(name, None)
        self._taken_unfinished[name] = content

    def _content(self, path: Path) -> bytes:
        if self._output_directory is not None and self._is_ours(path, self._output_directory):
            raise SourceUnavailable(f"{path} is our own output, which is never taken as input")
        return _content(path)

    def _is_ours(self, path: Path, output: Path) -> bool:
        """Whether it lies in our own output, on whatever way it is reached, or did."""
        directory = _number(output)
        if directory is None:
            return False
        if directory in map(_number, Path(os.path.realpath(path)).parents):
            return True
        number = _number(path)
        # A hard link keeps the file when we have put another in its place, and its number with it.
        if number is not None and (
            number == self._hard_links.get(path) or number in map(_number, output.glob("*.pem"))
        ):
            self._hard_links[path] = number
            return True
        self._hard_links.pop(path, None)
        return False


def _number(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _first_there(paths: tuple[Path, ...]) -> Path:
    return paths[0] if len(paths) == 1 else next(filter(Path.is_file, paths), paths[0])


def _content(path: Path) -> bytes:
    try:
        content = read_bytes(path, max_bytes=MAX_PEM_BYTES)
    except FileNotFoundError as error:
        raise SourceUnavailable(f"{path} does not exist") from error
    except OSError as error:
        raise SourceUnavailable(f"{path} cannot be read: {error.strerror}") from error
    if not content:
        raise SourceUnavailable(f"{path} is empty")
    return content
