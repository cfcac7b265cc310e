"""Tells that something in a directory may have changed: a thread reads what the kernel says.

Events get lost, on network file systems and where a directory is put in another's place. So they
are a hint to look at once, and `stamp` is what finds out, now and then, whether a file is the same.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer
from watchdog.observers.api import ObservedWatch

from mesh_ca._files import stamp

log = logging.getLogger("mesh_ca")

SCAN_S = 10.0
"""How often to look without having been told."""
_CHANGES = frozenset({"created", "modified", "moved", "deleted", "closed"})


class DirectoryWatch:
    """A watch that follows its directory when another takes its place; made by `watching`."""

    def __init__(
        self,
        schedule: Callable[[FileSystemEventHandler, str], ObservedWatch],
        unschedule: Callable[[ObservedWatch], None],
        notice: Callable[[], None],
    ) -> None:
        self._schedule = schedule
        self._unschedule = unschedule
        self._handler = _Handler(notice)
        self._place: tuple[int, ...] | None = None
        self._watch: ObservedWatch | None = None

    def follow(self, directory: Path) -> None:
        """Watch what stands at `directory` now; blocks on the file system."""
        place = stamp(directory)
        place = None if place is None else place[:2]
        if place == self._place:
            return
        if self._watch is not None:
            self._unschedule(self._watch)
            self._watch = None
        self._place = place
        if place is not None:
            try:
                self._watch = self._schedule(self._handler, str(directory.resolve()))
            except OSError as error:
                log.warning(
                    "directory can't be watched, looking at it now and then instead",
                    extra={"directory": str(directory), "reason": str(error), "every_s": SCAN_S},
                )


@asynccontextmanager
async def watching(notice: Callable[[], None]) -> AsyncIterator[DirectoryWatch]:
    """A watch that calls `notice` in the event loop, and watches nothing until told what."""
    loop = asyncio.get_running_loop()

    def notice_from_thread() -> None:
        loop.call_soon_threadsafe(notice)

    logging.getLogger("watchdog.observers.inotify").addFilter(_is_news)  # once, however often
    observer = Observer()
    observer.start()
    try:
        yield DirectoryWatch(observer.schedule, observer.unschedule, notice_from_thread)
    finally:
        observer.stop()
        await asyncio.shield(asyncio.to_thread(observer.join))


class _Handler(FileSystemEventHandler):
    """Runs in the observer's thread."""

    def __init__(self, notice: Callable[[], None]) -> None:
        self._notice = notice

    def on_any_event(self, event: FileSystemEvent) -> None:
        if event.event_type in _CHANGES:
            self._notice()


def _is_news(record: logging.LogRecord) -> bool:
    """Pass over what watchdog calls an error: an event that came while its watch was ended."""
    return record.funcName != "queue_events"
