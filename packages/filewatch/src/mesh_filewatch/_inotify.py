"""Directory events from the kernel, by watchdog's reader of inotify: one thread for all of them.

watchdog's observers are not used. They take a thread for each directory, wake whenever any file is
opened, delay the event of a removal by half a second, and log warnings about nothing. The reader
that they are built on does none of that.
"""

import errno
import os
from itertools import count

from watchdog.observers.inotify_c import (
    CallbackId,
    InotifyConstants,
    InotifyEvent,
    InotifyFD,
    Mask,
    WatchDescriptor,
)

from mesh_filewatch._directory_events import DirectoryEvent, OnEvent, Unwatch

_MASK = Mask(
    InotifyConstants.IN_MODIFY
    | InotifyConstants.IN_ATTRIB
    | InotifyConstants.IN_CLOSE_WRITE
    | InotifyConstants.IN_MOVED_FROM
    | InotifyConstants.IN_MOVED_TO
    | InotifyConstants.IN_CREATE
    | InotifyConstants.IN_DELETE
    | InotifyConstants.IN_DELETE_SELF
    | InotifyConstants.IN_MOVE_SELF
    | InotifyConstants.IN_ONLYDIR
)
_numbers = count()


class Inotify:
    """One inotify descriptor and its thread, both from the constructor until `close`."""

    def __init__(self) -> None:
        self._reader = InotifyFD()
        self._reader.start()

    def __call__(self, directory: str, on_event: OnEvent) -> Unwatch:
        """Watch a directory; see `WatchDirectory`. Holds a lock, so the directory must not hang."""
        number = CallbackId(next(_numbers))
        watch = self._reader.add_callback(os.fsencode(directory), _MASK, _Watch(on_event), number)
        if watch < 0:
            # watchdog does not raise for this error.
            self._reader.remove_callbacks([(watch, number)])
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), directory)
        return lambda: self._reader.remove_callbacks([(watch, number)])

    def close(self) -> None:
        self._reader.stop()
        self._reader.join()


class _Watch:
    """Called in the reader's thread."""

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event

    def on_event(self, event: InotifyEvent) -> None:
        written = event.is_modify and not event.is_directory
        self._on_event(
            os.fsdecode(event.name),
            DirectoryEvent.WRITTEN_TO if written else DirectoryEvent.CHANGED,
        )

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:  # noqa: ARG002 - as watchdog calls it
        self._on_event("", DirectoryEvent.ENDED)

    def on_queue_overflow(self) -> None:
        self._on_event("", DirectoryEvent.CHANGED)
