"""Tells when files may have changed, by watching the directories that their paths lead through.

It may tell too often and never too seldom. Directories are watched before the files are read; a
directory that was replaced is watched again; one that can't be watched is tried again; and at
intervals a change is assumed, for file systems without events.
"""

import asyncio
import errno
import logging
import os
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mesh_filewatch._calls_in_threads import FETCH_TIMEOUT_S, run_in_thread
from mesh_filewatch._directory_events import DirectoryEvent, OnEvent, Unwatch, WatchDirectory
from mesh_filewatch._errors import ReadTimedOut
from mesh_filewatch._file_calls import HANG_TIMEOUT_S, FileCall, FileCalls
from mesh_filewatch._watched_entries import Entry, watched_entries
from mesh_lifecycle import Backoff

if TYPE_CHECKING:
    from mesh_filewatch._inotify import Inotify

log = logging.getLogger("mesh_filewatch")

_TRY_AGAIN = Backoff(initial_s=0.5, maximum_s=60.0)
_ALL = ""
"""Used as the name of an entry: stands for all entries of the directory."""
_WATCHES = "/inotify"
"""Used as the path of calls that only change the watches."""
_KERNEL_TIMEOUT_S = FETCH_TIMEOUT_S
"""The time that the kernel is given to change watches."""
_MOST_CHANGED = 1024
"""Changed entries that are reported one by one; with more, any may have changed."""
_MAX_RESOLUTIONS = 5
"""How often in a row paths are resolved again whose links change meanwhile."""


class WatchTiming(NamedTuple):
    """How long a watch waits, in seconds.

    settle_s: after an event, for the next one, before a change is reported.
    max_settle_s: at most, while events go on or a writer has a file open.
    poll_interval_s: without any event, before the files are looked at anyway.
    hang_timeout_s: for a file system to answer, before other paths are looked at without it.
    """

    settle_s: float = 0.02
    max_settle_s: float = 0.5
    poll_interval_s: float = 10.0
    hang_timeout_s: float = HANG_TIMEOUT_S


_TIMING = WatchTiming()


class _Directory(NamedTuple):
    """A directory by name and inode, so that a new directory of the same name differs."""

    path: str
    device: int
    inode: int


class _Resolved(NamedTuple):
    """The entries that decide what a path leads to, and the directories that hold them."""

    entries: frozenset[Entry]
    directories: frozenset[_Directory]


class FileWatch:
    """Tells when any of the followed files may have changed; created by `watching`."""

    def __init__(self, watch_directory: WatchDirectory, timing: WatchTiming) -> None:
        self._watch_directory = watch_directory
        self._timing = timing
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._being_written: set[tuple[str, str]] = set()
        self._changed_entries: set[Entry] | None = set()
        self._changed_at = 0.0
        self._calls: FileCalls[tuple[str, bool], _Resolved] = FileCalls(
            self.mark_changed, hang_timeout_s=timing.hang_timeout_s
        )
        self._known: dict[tuple[str, bool], _Resolved] = {}
        self._names: dict[str, frozenset[str]] = {}
        self._watches: dict[_Directory, Unwatch] = {}
        self._delays = _TRY_AGAIN.delays()
        self.retry_in_s: float | None = None
        self.failures = 0
        self.changed: frozenset[Entry] | None = None
        self.changed_at = 0.0

    @property
    def directories(self) -> frozenset[str]:
        """The directories that are watched now."""
        return frozenset(each.path for each in self._watches)

    def mark_changed(self) -> None:
        """Make `wait` return as if a file had changed, any of them."""
        self._changed_entries = None
        self._changed_at = time.monotonic()
        self._changed.set()

    async def follow(self, paths: Iterable[Path], *, directories: Iterable[Path] = ()) -> bool:
        """Watch these files and all entries of these directories, in place of those before.

        `wait` tells of every change after this method returned, so read the files after it, if it
        returned True: something is watched that was not before. A path whose file system hangs is
        left out until it results, which counts as a change.
        """
        any_new = False
        paths_by_key = {(str(path), False): path for path in paths}
        paths_by_key |= {(str(path), True): path for path in directories}
        calls = {
            key: FileCall(str(path), partial(_resolve, path, whole=key[1]))
            for key, path in paths_by_key.items()
        }
        for _ in range(_MAX_RESOLUTIONS):
            results = await self._calls.run(calls)
            self._known = {
                key: result if isinstance(result, _Resolved) else self._known.get(key, _UNRESOLVED)
                for key, result in results.items()
            }
            if not await self._watch_known():
                return any_new
            any_new = True
            # A link that changed before it was watched caused no event, so resolve again.
        self.mark_changed()
        return True

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Return True when a file may have changed since the last return, and events have paused.

        Returns False when it is time to look anyway: after `poll_interval_s`, or `timeout_s`.
        When it returned True, `changed` are the entries that events were of, each the directory and
        a name in it, or None if any may have changed; and `changed_at` is the time of the last
        event, by `time.monotonic`.
        """
        limits = (self._timing.poll_interval_s, self.retry_in_s, timeout_s)
        try:
            async with asyncio.timeout(min(each for each in limits if each is not None)):
                await self._changed.wait()
        except TimeoutError:
            return False
        try:
            await self._settle()
        except BaseException:
            self._changed.set()  # the change has not been reported
            raise
        self.changed = None if self._changed_entries is None else frozenset(self._changed_entries)
        self.changed_at = self._changed_at
        self._changed_entries = set()
        return True

    async def _settle(self) -> None:
        end = self._loop.time() + self._timing.max_settle_s
        while (self._changed.is_set() or self._being_written) and self._loop.time() < end:
            self._changed.clear()
            await asyncio.sleep(self._timing.settle_s)
        self._changed.clear()
        self._being_written.clear()

    async def _watch_known(self) -> bool:
        """Watch the entries of all resolved paths; return whether a watch was added."""
        names: dict[str, set[str]] = defaultdict(set)
        for found in self._known.values():
            for directory, name in found.entries:
                names[directory].add(name)
        # Set before the watches change, so that no event of a new watch is compared with old names.
        self._names = {directory: frozenset(wanted) for directory, wanted in names.items()}
        wanted = set[_Directory]().union(*(found.directories for found in self._known.values()))
        gone = [self._watches.pop(each) for each in self._watches.keys() - wanted]
        # Sorted, so that a directory comes before those inside it.
        new = sorted(wanted - self._watches.keys())
        if not gone and not new:
            self._watch_again_in(None)
            return False
        # All of them answered a moment ago; should one hang now, the loop is not blocked.
        begun: Mapping[_Directory, Unwatch | OSError]
        try:
            begun = await run_in_thread(
                partial(self._exchange_watches, gone, new),
                path=_WATCHES,
                timeout_s=_KERNEL_TIMEOUT_S,
            )
        except ReadTimedOut as error:
            # If they are watched after all, each event comes twice from the next try on.
            begun = dict.fromkeys(new, error)
        return self._add_watches(begun)

    def _exchange_watches(
        self, gone: Sequence[Unwatch], new: Sequence[_Directory]
    ) -> Mapping[_Directory, Unwatch | OSError]:
        """End some watches and begin others; runs in a thread."""
        for end in gone:
            end()
        return {each: self._try_to_watch(each) for each in new}

    def _try_to_watch(self, directory: _Directory) -> Unwatch | OSError:
        try:
            return self._watch_directory(directory.path, self._handler_of(directory))
        except OSError as error:
            return error

    def _add_watches(self, begun: Mapping[_Directory, Unwatch | OSError]) -> bool:
        failed = any_new = False
        for directory, outcome in begun.items():
            match outcome:
                case FileNotFoundError() | NotADirectoryError():
                    # Deleted since its path was resolved, so resolve again.
                    self.mark_changed()
                case OSError():
                    self._on_failure(directory.path, outcome, log_it=not failed)
                    failed = True
                case _:
                    any_new = True
                    self._watches[directory] = outcome
        self._watch_again_in(next(self._delays) if failed else None)
        return any_new

    def _watch_again_in(self, delay_s: float | None) -> None:
        self.retry_in_s = delay_s
        if delay_s is None:
            self._delays = _TRY_AGAIN.delays()

    def _on_failure(self, directory: str, error: OSError, *, log_it: bool) -> None:
        self.failures += 1
        if log_it and self.retry_in_s is None:
            log.warning(
                "directory can't be watched, looking at its files now and then until it can",
                extra={"directory": directory, "reason": error.strerror or str(error)},
            )

    def _handler_of(self, directory: _Directory) -> OnEvent:
        def on_event(name: str, event: DirectoryEvent) -> None:
            """Run in inotify's thread."""
            wanted = self._names.get(directory.path, frozenset())
            if name == "" or name in wanted or _ALL in wanted:
                self._loop.call_soon_threadsafe(self._on_event, directory, name, event)

        return on_event

    def _on_event(self, directory: _Directory, name: str, event: DirectoryEvent) -> None:
        if event is DirectoryEvent.WRITTEN_TO:
            self._being_written.add((directory.path, name))
        else:
            self._being_written.discard((directory.path, name))
        if event is DirectoryEvent.ENDED:
            # A directory that is created here later may get the same inode number.
            self._watches.pop(directory, None)
        if self._changed_entries is not None:
            self._changed_entries.add((directory.path, name))
            if (
                not name
                or event is DirectoryEvent.ENDED
                or len(self._changed_entries) > _MOST_CHANGED
            ):
                self._changed_entries = None
        self._changed_at = time.monotonic()
        self._changed.set()

    async def close(self) -> None:
        """End all watches."""
        await self._calls.close()
        ends = tuple(self._watches.values())
        self._watches.clear()
        await run_in_thread(partial(self._exchange_watches, ends, ()), path=_WATCHES)


@asynccontextmanager
async def watching(
    *, timing: WatchTiming = _TIMING, watch_directory: WatchDirectory | None = None
) -> AsyncIterator[FileWatch]:
    """Watch files for as long as the block runs; tests pass `watch_directory` in place of inotify.

    Takes no thread and loads no library before a file is followed.
    """
    inotify = _LateInotify()
    watch = FileWatch(watch_directory or inotify, timing)
    try:
        yield watch
    finally:
        with suppress(ReadTimedOut):
            closing = asyncio.create_task(_closed(watch, inotify), name="end of file watches")
            await asyncio.shield(closing)


async def _closed(watch: FileWatch, inotify: "_LateInotify") -> None:
    await watch.close()
    await run_in_thread(inotify.close, path=_WATCHES)


class _LateInotify:
    """Starts inotify when the first directory is watched: it takes a thread and loads watchdog.

    Called in threads, one of which may still be running when the watch is closed.
    """

    def __init__(self) -> None:
        self._inotify: Inotify | None = None
        self._lock = threading.Lock()
        self._closed = False

    def __call__(self, directory: str, on_event: OnEvent) -> Unwatch:
        with self._lock:
            if self._closed:
                raise OSError(errno.ECANCELED, "nothing is watched any more", directory)
            if self._inotify is None:
                from mesh_filewatch._inotify import Inotify

                self._inotify = Inotify()
            return self._inotify(directory, on_event)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._inotify is not None:
                self._inotify.close()


_UNRESOLVED = _Resolved(frozenset(), frozenset())


def _resolve(path: Path, *, whole: bool) -> _Resolved:
    entries = watched_entries(path)
    if whole:
        entries |= {(os.path.realpath(path), _ALL)}
    directories = map(_directory, sorted({directory for directory, _ in entries}))
    return _Resolved(entries, frozenset(filter(None, directories)))


def _directory(path: str) -> _Directory | None:
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return _Directory(path, status.st_dev, status.st_ino)
