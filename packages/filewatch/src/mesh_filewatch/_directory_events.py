"""What a watch tells of a directory."""

from collections.abc import Callable
from enum import Enum, auto
from typing import Protocol


class DirectoryEvent(Enum):
    """What came of an entry, or of the watch itself.

    WRITTEN_TO: it is open and has other content than before. CHANGED: anything else: made, moved,
    deleted, closed by a writer, other rights. ENDED: the directory is no longer watched.
    """

    WRITTEN_TO = auto()
    CHANGED = auto()
    ENDED = auto()


OnEvent = Callable[[str, DirectoryEvent], None]
"""Called with the name of an entry, from any thread; "" is the directory itself."""
Unwatch = Callable[[], None]


class WatchDirectory(Protocol):
    """Watches one directory, not what is below it."""

    def __call__(self, directory: str, on_event: OnEvent) -> Unwatch:
        """Tell of each entry that changes until the returned function is called; raises OSError.

        Blocks, and is called in a thread.
        """
