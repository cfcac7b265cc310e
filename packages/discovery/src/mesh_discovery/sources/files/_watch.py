"""Waits for changes of the configuration's files.

File events can be lost (a full queue, a network file system), so a cheap summary of the files is
compared now and then as well.
"""

import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from mesh_filewatch import FileWatch, ReadTimedOut, WatchTiming, run_in_thread, watching

log = logging.getLogger(__name__)

_TIMING = WatchTiming(settle_s=0.05)
_PATIENCE_S = 60.0
"""A large configuration takes seconds to read; longer than this, it is the file system."""

T = TypeVar("T")


class Change(NamedTuple):
    """A change of the files, as far as it is known.

    entries: the directories' entries that it is of, each a directory and a name; None: any.
    at: when the last file changed, by `time.monotonic`; None when that is not known.
    """

    entries: frozenset[tuple[str, str]] | None
    at: float | None


class FileChanges:
    """The changes of the watched files; created by `watching_files`."""

    def __init__(
        self,
        watch: FileWatch,
        *,
        root: Path,
        summary: Callable[[], object],
        seen: Callable[[], object],
    ) -> None:
        self._watch = watch
        self._root = root
        self._summary = summary
        self._seen = seen

    async def follow(self, directories: Iterable[Path]) -> None:
        """Watch these directories from now on, and the links that lead to the root."""
        any_new = await self._watch.follow([self._root], directories=directories)
        if any_new and await self._differs():
            self._watch.mark_changed()

    async def wait(self) -> Change:
        """Return when files changed since the last call and none did for a moment."""
        while not await self._watch.wait():
            if self._watch.retry_in_s is not None or await self._differs():
                return Change(None, None)
        return Change(self._watch.changed, self._watch.changed_at)

    async def _differs(self) -> bool:
        return await read_in_thread(self._summary, self._root) != self._seen()


async def read_in_thread(work: Callable[[], T], root: Path) -> T:
    """Run `work` in a thread, again and again while the file system does not answer."""
    while True:
        try:
            return await run_in_thread(
                work, path=root / "any", key=(work, str(root)), timeout_s=_PATIENCE_S
            )
        except ReadTimedOut as error:
            log.warning(
                "configuration can't be read, the last good one stays", extra={"reason": str(error)}
            )


@asynccontextmanager
async def watching_files(
    root: Path,
    *,
    directories: Iterable[Path],
    summary: Callable[[], object],
    seen: Callable[[], object],
    timing: WatchTiming = _TIMING,
) -> AsyncIterator[FileChanges]:
    """Watch `root` and the directories that hold the files until the context is left.

    `summary` is called in a thread and returns a value that differs when the files or their
    directories do; `seen` returns what that was when they were last read, so that a change since
    counts.
    """
    async with watching(timing=timing) as watch:
        changes = FileChanges(watch, root=root, summary=summary, seen=seen)
        await changes.follow(directories)
        yield changes
