"""Says when files may have changed: watches on the directories that decide what the files are.

It may say so too often and never too seldom: directories are watched before the files are read,
one that was replaced is watched anew, one that can't be watched is tried again, and now and then
it says so without having been told, for file systems that tell nothing.
"""

import asyncio
import errno
import logging
import os
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mesh_filewatch._directory_events import DirectoryEvent, OnEvent, Unwatch, WatchDirectory
from mesh_filewatch._entries import Entry, watched_entries
from mesh_filewatch._errors import ReadTimedOut
from mesh_filewatch._fetching import FETCH_TIMEOUT_S, run_aside
from mesh_filewatch._lookups import PATIENCE_S, Lookup, Lookups
from mesh_lifecycle import Backoff

if TYPE_CHECKING:
    from mesh_filewatch._inotify import Inotify

log = logging.getLogger("mesh_filewatch")

_TRY_AGAIN = Backoff(initial_s=0.5, maximum_s=60.0)
_ALL = ""
"""In the place of a name: whatever is in the directory."""
_OURS = "/inotify"
"""In the place of a path, for work on the watches themselves."""
_EXCHANGE_S = FETCH_TIMEOUT_S
"""For the kernel to take watches."""
_TURNS = 5
"""So often in a row are links looked up that turn meanwhile."""


class Pace(NamedTuple):
    """How long to wait for what, in seconds.

    settle_s: after the last event, for the next. max_settle_s: for the end of events that go on,
    and for a file that is being written to be closed. look_every_s: without any event.
    patience_s: for a file system to answer, before the others are gone on with.
    """

    settle_s: float = 0.02
    max_settle_s: float = 0.5
    look_every_s: float = 10.0
    patience_s: float = PATIENCE_S


_PACE = Pace()


class _Directory(NamedTuple):
    """A directory as it is now: a new one of the same name is another."""

    path: str
    device: int
    inode: int


class _Found(NamedTuple):
    """What decides about one path, and the directories in which that is."""

    entries: frozenset[Entry]
    directories: frozenset[_Directory]


class FileWatch:
    """Made by `watching`."""

    def __init__(self, observe: WatchDirectory, pace: Pace) -> None:
        self._observe = observe
        self._pace = pace
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._told = False
        self._being_written: set[tuple[str, str]] = set()
        self._lookups: Lookups[tuple[str, bool], _Found] = Lookups(
            self.notice, patience_s=pace.patience_s
        )
        self._known: dict[tuple[str, bool], _Found] = {}
        self._names: dict[str, frozenset[str]] = {}
        self._watches: dict[_Directory, Unwatch] = {}
        self._delays = _TRY_AGAIN.delays()
        self.retry_in_s: float | None = None
        self.failures = 0

    @property
    def directories(self) -> frozenset[str]:
        """Those that are watched."""
        return frozenset(each.path for each in self._watches)

    def notice(self) -> None:
        """Behave as if something had changed."""
        self._changed.set()

    async def follow(self, paths: Iterable[Path], *, directories: Iterable[Path] = ()) -> None:
        """Watch what decides about these paths and what is in these directories; nothing else.

        Whatever changes after this returned is told, so read the files after it. A path whose
        file system hangs is left out until it answers, and that is told as a change.
        """
        asked = {(str(path), False): path for path in paths}
        asked |= {(str(path), True): path for path in directories}
        lookups = {
            key: Lookup(str(path), partial(_found, path, whole=key[1]))
            for key, path in asked.items()
        }
        for _ in range(_TURNS):
            answers = await self._lookups.ask(lookups)
            self._known = {
                key: answer if isinstance(answer, _Found) else self._known.get(key, _NOTHING)
                for key, answer in answers.items()
            }
            if not await self._watch_known():
                return
            # A link that was turned before the first watch on it was never told of: look again.
        self.notice()

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Return when something may have changed since the last return, and has settled.

        Or when it is time to look anyway, at the latest after `timeout_s`: then it is False.
        """
        limits = (self._pace.look_every_s, self.retry_in_s, timeout_s)
        try:
            async with asyncio.timeout(min(each for each in limits if each is not None)):
                await self._changed.wait()
        except TimeoutError:
            return False
        try:
            await self._settle()
        except BaseException:
            self._changed.set()  # nobody has been told
            raise
        return True

    async def _settle(self) -> None:
        end = self._loop.time() + self._pace.max_settle_s
        while (self._changed.is_set() or self._being_written) and self._loop.time() < end:
            self._changed.clear()
            await asyncio.sleep(self._pace.settle_s)
        self._changed.clear()
        self._being_written.clear()

    async def _watch_known(self) -> bool:
        """Watch what is known to decide; tell whether that took any new watch."""
        names: dict[str, set[str]] = defaultdict(set)
        for found in self._known.values():
            for directory, name in found.entries:
                names[directory].add(name)
        # First, so that no event of a new watch meets the old names.
        self._names = {directory: frozenset(wanted) for directory, wanted in names.items()}
        wanted = set[_Directory]().union(*(found.directories for found in self._known.values()))
        gone = [self._watches.pop(each) for each in self._watches.keys() - wanted]
        # A directory before what is in it.
        new = sorted(wanted - self._watches.keys())
        if not gone and not new:
            self._watch_again_in(None)
            return False
        # All of them answered a moment ago; should one hang now, it is not the loop that does.
        begun: Mapping[_Directory, Unwatch | OSError]
        try:
            begun = await run_aside(
                partial(self._exchanged, gone, new), about=_OURS, timeout_s=_EXCHANGE_S
            )
        except ReadTimedOut as error:
            # What is watched after all when it answers is told twice from the next try on.
            begun = dict.fromkeys(new, error)
        return self._take_watches(begun)

    def _exchanged(
        self, gone: Sequence[Unwatch], new: Sequence[_Directory]
    ) -> Mapping[_Directory, Unwatch | OSError]:
        """Runs in a thread."""
        for end in gone:
            end()
        return {each: self._observed(each) for each in new}

    def _observed(self, directory: _Directory) -> Unwatch | OSError:
        try:
            return self._observe(directory.path, self._told_of(directory))
        except OSError as error:
            return error

    def _take_watches(self, begun: Mapping[_Directory, Unwatch | OSError]) -> bool:
        failed = any_new = False
        for directory, outcome in begun.items():
            match outcome:
                case FileNotFoundError() | NotADirectoryError():
                    # Gone since it was looked up, so something changed: look again.
                    self._changed.set()
                case OSError():
                    self._failed(directory.path, outcome, tell=not failed)
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

    def _failed(self, directory: str, error: OSError, *, tell: bool) -> None:
        self.failures += 1
        if tell and self.retry_in_s is None:
            log.warning(
                "directory can't be watched, looking at its files now and then until it can",
                extra={"directory": directory, "reason": error.strerror or str(error)},
            )

    def _told_of(self, directory: _Directory) -> OnEvent:
        def told(name: str, happening: DirectoryEvent) -> None:
            """Runs in the observer's thread."""
            wanted = self._names.get(directory.path, frozenset())
            if name == "" or name in wanted or _ALL in wanted:
                self._loop.call_soon_threadsafe(self._take, directory, name, happening)

        return told

    def _take(self, directory: _Directory, name: str, happening: DirectoryEvent) -> None:
        if happening is DirectoryEvent.WRITTEN_TO:
            self._being_written.add((directory.path, name))
        else:
            self._being_written.discard((directory.path, name))
        if happening is DirectoryEvent.ENDED:
            # Another directory may be made here that bears the same number.
            self._watches.pop(directory, None)
        self._changed.set()

    async def close(self) -> None:
        """Watch nothing any more."""
        await self._lookups.close()
        ends = tuple(self._watches.values())
        self._watches.clear()
        await run_aside(partial(self._exchanged, ends, ()), about=_OURS)


@asynccontextmanager
async def watching(
    *, pace: Pace = _PACE, observe: WatchDirectory | None = None
) -> AsyncIterator[FileWatch]:
    """Watch files for as long as the block runs; `observe` stands in for inotify in tests.

    Costs next to nothing until something is followed.
    """
    inotify = _LateInotify()
    watch = FileWatch(observe or inotify, pace)
    try:
        yield watch
    finally:
        with suppress(ReadTimedOut):
            closing = asyncio.create_task(_closed(watch, inotify), name="end of file watches")
            await asyncio.shield(closing)


async def _closed(watch: FileWatch, inotify: "_LateInotify") -> None:
    await watch.close()
    await run_aside(inotify.close, about=_OURS)


class _LateInotify:
    """inotify from when it is first needed: it brings a thread, and watchdog's modules.

    Called in threads, of which one may be at work still when the watch is closed.
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


_NOTHING = _Found(frozenset(), frozenset())


def _found(path: Path, *, whole: bool) -> _Found:
    entries = watched_entries(path)
    if whole:
        entries |= {(os.path.realpath(path), _ALL)}
    directories = map(_directory, sorted({directory for directory, _ in entries}))
    return _Found(entries, frozenset(filter(None, directories)))


def _directory(path: str) -> _Directory | None:
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return _Directory(path, status.st_dev, status.st_ino)
