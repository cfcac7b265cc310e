"""What a watch tells of a directory."""

from collections.abc import Callable
from enum import Enum, auto
from typing import Protocol


class Happening(Enum):
    """What came of an entry, or of the watch itself.

    WRITTEN_TO: it is open and has other content than before. CHANGED: anything else: made, moved,
    deleted, closed by a writer, other rights. ENDED: the directory is no longer watched.
    """

    WRITTEN_TO = auto()
    CHANGED = auto()
    ENDED = auto()


Told = Callable[[str, Happening], None]
"""Called with the name of an entry, from any thread; "" is the directory itself."""
Unwatch = Callable[[], None]


class Observe(Protocol):
    """Watches one directory, not what is below it."""

    def __call__(self, directory: str, told: Told) -> Unwatch:
        """Tell of each entry that changes until the returned function is called; raises OSError.

        Blocks, and is called in a thread.
        """
