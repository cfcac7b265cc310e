"""Tells when files may have changed: inotify events, gathered until they settle.

Watches directories, since editors and Kubernetes replace files and links by renaming. Events can
be lost (a full queue, a network file system), so a cheap summary of the files is compared now and
then as well.
"""

import asyncio
import logging
import os
import warnings
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch

log = logging.getLogger(__name__)

_CHANGES = frozenset({"created", "modified", "moved", "deleted", "closed"})
"""Opening and reading are events too, and ours among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long to wait for what, in seconds.

    settle_s: after the last event, for the next. max_settle_s: for the end of events that go on,
    and of a file that is being written. look_every_s: between the regular looks.
    """

    settle_s: float = 0.05
    max_settle_s: float = 0.5
    look_every_s: float = 10.0


_PACE = Pace()


@dataclass(frozen=True, slots=True)
class _Place:
    """A directory as it is now: a new one of the same name is another."""

    path: str
    device: int
    inode: int
    recursive: bool


class FileChanges:
    """Made by `watching_files`."""

    def __init__(
        self,
        observer: BaseObserver,
        *,
        root: Path,
        summary: Callable[[], Hashable],
        seen: Hashable,
        pace: Pace,
    ) -> None:
        self._observer = observer
        self._root = root
        self._pace = pace
        self._summary = summary
        self._changed = asyncio.Event()
        self._being_written: set[str] = set()
        self._loop = asyncio.get_running_loop()
        self._watches: dict[_Place, ObservedWatch] = {}
        self._last = seen
        self._complained = False

    async def follow(self, directories: frozenset[Path]) -> None:
        """Watch these from now on; the root with all that is below it."""
        await asyncio.to_thread(self._follow, directories)
        if await asyncio.to_thread(self._differs):
            self._changed.set()

    async def wait(self) -> None:
        """Return when something changed since the last call and nothing has for a moment.

        A file that was cut to be written anew is waited for: empty, it would be a good one, too.
        """
        while not self._changed.is_set():
            try:
                async with asyncio.timeout(self._pace.look_every_s):
                    await self._changed.wait()
            except TimeoutError:
                if await asyncio.to_thread(self._differs):
                    break
        deadline = self._loop.time() + self._pace.max_settle_s
        while (self._changed.is_set() or self._being_written) and self._loop.time() < deadline:
            self._changed.clear()
            await asyncio.sleep(self._pace.settle_s)
        self._changed.clear()
        self._being_written.clear()
        self._last = await asyncio.to_thread(self._summary)

    def _differs(self) -> bool:
        return self._summary() != self._last

    def _follow(self, directories: frozenset[Path]) -> None:
        root = self._root.resolve()
        further = {each for each in directories if each != root and root not in each.parents}
        # Where the root itself is replaced; what else happens there is no one's business.
        above = self._root.absolute().parent
        places = [
            _place(root, recursive=True),
            *(_place(each, recursive=False) for each in further | {above}),
        ]
        wanted = {place for place in places if place is not None}
        for gone in self._watches.keys() - wanted:
            self._observer.unschedule(self._watches.pop(gone))
        for new in wanted - self._watches.keys():
            only_root = Path(new.path) == above and above not in further and not new.recursive
            self._schedule(new, only=self._root if only_root else None)

    def _schedule(self, place: _Place, *, only: Path | None) -> None:
        handler = _Handler(self._notice, only=only)
        try:
            self._watches[place] = self._observer.schedule(
                handler, place.path, recursive=place.recursive
            )
        except OSError as error:
            if not self._complained:
                self._complained = True
                log.warning(
                    "directory can't be watched, looking at it now and then instead",
                    extra={
                        "directory": place.path,
                        "reason": str(error),
                        "every_s": self._pace.look_every_s,
                    },
                )

    def _notice(self, event: FileSystemEvent) -> None:
        self._loop.call_soon_threadsafe(self._take, event)

    def _take(self, event: FileSystemEvent) -> None:
        if event.event_type == "modified" and not event.is_directory:
            self._being_written.add(os.fsdecode(event.src_path))
        else:
            self._being_written.discard(os.fsdecode(event.src_path))
        self._changed.set()


class _Handler(FileSystemEventHandler):
    """Runs in the observer's thread."""

    def __init__(self, notice: Callable[[FileSystemEvent], None], *, only: Path | None) -> None:
        self._notice = notice
        self._only = str(only.absolute()) if only is not None else None

    def on_any_event(self, event: FileSystemEvent) -> None:
        if event.event_type not in _CHANGES:
            return
        if self._only is None or self._only in (
            os.fsdecode(event.src_path),
            os.fsdecode(event.dest_path),
        ):
            self._notice(event)


def _place(path: Path, *, recursive: bool) -> _Place | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return _Place(str(path), status.st_dev, status.st_ino, recursive)


@asynccontextmanager
async def watching_files(
    root: Path,
    *,
    directories: frozenset[Path],
    summary: Callable[[], Hashable],
    seen: Hashable,
    pace: Pace = _PACE,
) -> AsyncIterator[FileChanges]:
    """Watch `root` and further directories until the context is left.

    `summary` gives a value that differs when the files do, and `seen` is what it gave before they
    were last read: a change made since then counts. It is called in a thread.
    """
    logging.getLogger("watchdog.observers.inotify").addFilter(_is_news)  # once, however often
    # What watchdog says when it meets a new directory by its event and by its parent's listing.
    warnings.filterwarnings("ignore", "Callback with id .* already exists", RuntimeWarning)
    observer = Observer()
    changes = FileChanges(observer, root=root, summary=summary, seen=seen, pace=pace)
    observer.start()
    try:
        await changes.follow(directories)
        yield changes
    finally:
        observer.stop()
        await asyncio.to_thread(observer.join)


def _is_news(record: logging.LogRecord) -> bool:
    """Pass over what watchdog calls an error: an event that came while its watch was ended."""
    return record.funcName != "queue_events"
