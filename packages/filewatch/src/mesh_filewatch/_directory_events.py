"""The events of a watched directory."""

from collections.abc import Callable
from enum import Enum, auto
from typing import Protocol


class DirectoryEvent(Enum):
    """An event of an entry in a watched directory, or of the watch itself.

    WRITTEN_TO: the file's content changed and its writer still has it open.
    CHANGED: the entry was created, moved, deleted, closed by its writer, or got other permissions.
    ENDED: the directory is no longer watched.
    """

    WRITTEN_TO = auto()
    CHANGED = auto()
    ENDED = auto()


OnEvent = Callable[[str, DirectoryEvent], None]
"""Called with the name of an entry, from any thread; "" is the directory itself."""
Unwatch = Callable[[], None]


class WatchDirectory(Protocol):
    """Watches one directory, without the directories below it."""

    def __call__(self, directory: str, on_event: OnEvent) -> Unwatch:
        """Call `on_event` for each entry that changes, until the returned function is called.

        Raises OSError. Blocks, so it is called in a thread.
        """
