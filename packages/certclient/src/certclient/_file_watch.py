"""Says when files may have changed: inotify on the directories that decide what they are.

It may say so too often and never too seldom: directories are watched before the files are read,
a directory that was replaced is watched anew, one that can't be watched is tried again, and now
and then it says so without any event, for file systems that have none.
"""

import asyncio
import logging
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from certclient._watched_entries import watched_entries
from mesh_lifecycle import Backoff

log = logging.getLogger("certclient")

LOOK_ANYWAY_S = 10.0
_TRY_AGAIN = Backoff(initial_s=0.5, maximum_s=60.0)

Unwatch = Callable[[], None]


class Observe(Protocol):
    """Watches one directory, not what is below it."""

    def __call__(self, directory: str, told: Callable[[str], None]) -> Unwatch:
        """Call `told` with a path, from any thread, for each entry that changes; raises OSError."""


@dataclass(frozen=True, slots=True)
class _Directory:
    """A directory as it is now: a new one of the same name is another."""

    path: str
    device: int
    inode: int


class FileWatch:
    """Made by `watching`."""

    def __init__(self, observe: Observe) -> None:
        self._observe = observe
        self._watches: dict[_Directory, Unwatch] = {}
        self._names: dict[str, frozenset[str]] = {}
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
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

    async def wait(self, timeout_s: float = LOOK_ANYWAY_S) -> None:
        """Return when something may have changed since the last return, or after the timeout."""
        if self.retry_in_s is not None:
            timeout_s = min(timeout_s, self.retry_in_s)
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            pass
        self._changed.clear()

    def follow(self, paths: Iterable[Path]) -> None:
        """Watch what decides about these paths, and nothing else. Blocks for some system calls.

        Whatever changes after this returned is told; so read the files after it.
        """
        names: dict[str, set[str]] = defaultdict(set)
        for path in paths:
            for directory, name in watched_entries(path):
                names[directory].add(name)
        # First, so that no event of a new watch meets the old names.
        self._names = {directory: frozenset(wanted) for directory, wanted in names.items()}
        wanted = {found for path in names if (found := _directory(path)) is not None}
        for gone in self._watches.keys() - wanted:
            self._watches.pop(gone)()
        failed = False
        for new in sorted(wanted - self._watches.keys(), key=lambda each: each.path):
            try:
                self._watches[new] = self._observe(new.path, self._told)
            except FileNotFoundError:
                # Gone since it was looked up, so something changed: look again.
                self._loop.call_soon_threadsafe(self._changed.set)
            except OSError as error:
                failed = True
                self._failed(new.path, error)
        if failed:
            self.retry_in_s = next(self._delays)
        else:
            self.retry_in_s, self._delays = None, _TRY_AGAIN.delays()

    def _failed(self, directory: str, error: OSError) -> None:
        self.failures += 1
        if self.retry_in_s is None:
            log.warning(
                "directory can't be watched, looking at its files now and then until it can",
                extra={"directory": directory, "reason": error.strerror or str(error)},
            )

    def _told(self, path: str) -> None:
        """Runs in the observer's thread."""
        directory, name = os.path.split(path)
        if name in self._names.get(directory, ()) or path in self._names:
            self._loop.call_soon_threadsafe(self._changed.set)

    def close(self) -> None:
        while self._watches:
            self._watches.popitem()[1]()


@asynccontextmanager
async def watching(observe: Observe | None = None) -> AsyncIterator[FileWatch]:
    """Watch files for as long as the block runs; `observe` stands in for inotify in tests."""
    if observe is not None:
        watch = FileWatch(observe)
        try:
            yield watch
        finally:
            watch.close()
        return
    async with _inotify() as observer:
        watch = FileWatch(observer)
        try:
            yield watch
        finally:
            await asyncio.to_thread(watch.close)


@asynccontextmanager
async def _inotify() -> AsyncIterator[Observe]:
    # Brings threads and ctypes with it: only those who watch files pay for that.
    from watchdog.events import FileSystemEvent, FileSystemEventHandler
    from watchdog.observers import Observer

    class Handler(FileSystemEventHandler):
        def __init__(self, told: Callable[[str], None]) -> None:
            self._told = told

        def on_any_event(self, event: FileSystemEvent) -> None:
            if event.event_type in {"opened", "closed_no_write"}:
                return
            if event.is_directory and event.event_type == "modified":
                return  # of anything in it; the entry has an event of its own
            for path in (event.src_path, event.dest_path):
                if path:
                    self._told(os.fsdecode(path))

    logging.getLogger("watchdog.observers.inotify").addFilter(_is_news)  # once, however often
    observer = Observer()

    def observe(directory: str, told: Callable[[str], None]) -> Unwatch:
        watch = observer.schedule(Handler(told), directory, recursive=False)
        return lambda: observer.unschedule(watch)

    await asyncio.to_thread(observer.start)
    try:
        yield observe
    finally:
        await asyncio.to_thread(observer.stop)
        await asyncio.to_thread(observer.join)


def _directory(path: str) -> _Directory | None:
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return _Directory(path, status.st_dev, status.st_ino)


def _is_news(record: logging.LogRecord) -> bool:
    """Pass over what watchdog calls an error: an event that came while its watch was ended."""
    return record.funcName != "queue_events"
