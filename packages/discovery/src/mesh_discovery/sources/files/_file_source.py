"""Files as a source of objects: read at the start, then again when they change."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial

from istio_config import Snapshot
from mesh_discovery._config_error import ConfigError
from mesh_discovery._limited_lines import MOST_LINES, first_of
from mesh_discovery._metrics import Metrics
from mesh_discovery.sources._reading import Reading, WrongFile
from mesh_discovery.sources._source import OnChange
from mesh_discovery.sources.files._first_load import first_reading
from mesh_discovery.sources.files._loader import ConfigLoader, Load
from mesh_discovery.sources.files._watch import FileChanges, read_in_thread, watching_files
from mesh_filewatch import ReadTimedOut, run_in_thread
from mesh_lifecycle import in_background

log = logging.getLogger(__name__)

_SUMMARY_TIMEOUT_S = 4.0
"""The client that asks for the page waits for it, five seconds at the most."""


class FileSource:
    """The files of a directory, each at its last good content."""

    def __init__(self, loader: ConfigLoader, first: Load, *, metrics: Metrics) -> None:
        """Know a first load; raises `ConfigError` if anything is wrong but what stops itself."""
        if not all(each.is_served_in_part for each in first.wrong):
            raise ConfigError(first.problems)
        self._loader = loader
        self._metrics = metrics
        self._snapshot = first.snapshot
        self._left: Snapshot | None = None
        """The one before, until the next reading: letting go of it costs what the mesh has."""
        self._directories = first.directories
        self._applied = asyncio.Event()
        """Set while what was read last is what is served: not while files are read."""
        self._applied.set()
        self._count_validated()
        self.reading = Reading(looked_at=time.time(), files=first.files)
        """The outcome of the last look."""
        self._log_wrong_files(first)
        self.reading = Reading(looked_at=time.time(), wrong=first.wrong, files=first.files)

    @property
    def snapshot(self) -> Snapshot:
        """The objects of the files, each at its last good content."""
        return self._snapshot

    async def is_current(self) -> bool:
        """Return whether what is known is what the files hold now, wrong files left aside."""
        summary = self._loader.signature
        try:
            found = await run_in_thread(
                summary,
                path=self._loader.directory / "any",
                key=(summary, "asked for"),
                timeout_s=_SUMMARY_TIMEOUT_S,
            )
        except ReadTimedOut:
            return False
        return self._applied.is_set() and found == self._loader.seen()

    @asynccontextmanager
    async def following(self, on_change: OnChange) -> AsyncIterator[None]:
        """Read the files again whenever they change, while the block runs."""
        watching = watching_files(
            self._loader.directory,
            directories=self._directories,
            summary=self._loader.signature,
            seen=self._loader.seen,
        )
        async with watching as changes:
            async with in_background(self._follow(changes, on_change), name="configuration"):
                yield

    async def _follow(self, changes: FileChanges, on_change: OnChange) -> None:
        while True:
            change = await changes.wait()
            self._applied.clear()
            reading = partial(self._timed_load, change.entries)
            load = await read_in_thread(reading, self._loader.directory)
            if self.take(load):
                on_change(at=change.at)
            self._applied.set()
            if load.whole:
                await changes.follow(load.directories)

    def take(self, load: Load) -> bool:
        """Know what was read; log once what is wrong with files, and when no longer.

        Returns whether it is something else than before.
        """
        self._log_wrong_files(load)
        self.reading = Reading(looked_at=time.time(), wrong=load.wrong, files=load.files)
        edit = load.snapshot.edit_since(self._snapshot.identity)
        differs = load.snapshot != self._snapshot if edit is None else edit.gone != edit.come
        result = "changed" if differs else "unchanged"
        if load.wrong:
            result = "partly" if differs else "refused"
        self._metrics.config_loads.labels(result).inc()
        self._left, self._snapshot = self._snapshot, load.snapshot
        return differs

    def _timed_load(self, changed: Iterable[tuple[str, str]] | None) -> Load:
        self._left = None
        started = time.perf_counter()
        load = self._loader.load(changed)
        self._count_validated()
        self._metrics.config_load_time.observe(time.perf_counter() - started)
        return load

    def _count_validated(self) -> None:
        self._metrics.validated.set(self._loader.right_objects)
        self._metrics.not_valid.set(self._loader.wrong_files)

    def _log_wrong_files(self, load: Load) -> None:
        before = {each.file: each for each in self.reading.wrong}
        self._metrics.config_problems.set(len(load.problems))
        new = []
        for each in load.wrong:
            known = before.pop(each.file, None)
            if known is None or known.problems != each.problems:
                new.append(each)
        self._metrics.rejected.inc(len(new))
        for wrong in first_of(new, "configuration file is wrong"):
            log.error(
                _message_of(wrong),
                extra={
                    "file": wrong.file,
                    "problems": [str(problem) for problem in wrong.problems[:MOST_LINES]],
                    "problem_count": len(wrong.problems),
                    "objects_kept": wrong.kept_objects,
                },
            )
        for file in first_of(list(before), "configuration file is no longer wrong"):
            log.info("configuration file is no longer wrong", extra={"file": file})


def _message_of(wrong: WrongFile) -> str:
    if wrong.is_served_in_part:
        return "configuration file is wrong, it is served without the objects that are wrong in it"
    if wrong.kept_from is not None:
        return "configuration file is wrong, its last good content is served"
    return "configuration file is wrong, nothing of it is served"


async def read_files(loader: ConfigLoader, *, metrics: Metrics) -> FileSource:
    """Read the files of a loader for the first time; raises `ConfigError` if anything is wrong."""
    guarded = partial(first_reading, loader.load, loader)
    first = await run_in_thread(guarded, path=loader.directory / "any", timeout_s=None)
    return FileSource(loader, first, metrics=metrics)
