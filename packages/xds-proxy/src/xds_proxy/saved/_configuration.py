"""Saves what Envoy accepts, and finds it again for an Envoy that starts without a control plane.

Accepted responses wait until they are written, compressed; they are written a second after the
first of them, and from then on so rarely that writing takes a twentieth of the time at most. All
work on files and contents is done in a thread. What can't be saved is told, and costs Envoy
nothing.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple, TypeVar

from mesh_filewatch import run_in_thread
from mesh_lifecycle import Backoff, Clock, SystemClock, in_background
from xds_proxy._config import SavedConfig
from xds_proxy._errors import WireError
from xds_proxy.protocol._dialect import DELTA, Dialect
from xds_proxy.saved._directory import UnusableDirectory
from xds_proxy.saved._file import FileList, UnusableFile
from xds_proxy.saved._merging import Change, Resources, merged, numbered
from xds_proxy.saved._node import described_node
from xds_proxy.saved._store import NotSaved, Owner, Store, can_be_saved

log = logging.getLogger("xds_proxy")

T = TypeVar("T")

_SETTLE_S = 1.0
_DUTY = 20.0
"""Writing takes at most one part in so many of the time."""
_COMPRESSED_FROM = 1 << 16
_MAX_WAITING = 64
"""Responses that wait of one type; more are written at once, which makes one file of them."""
_MOST = 1024
"""Responses that wait of one type while they can't be written; with more, all are given up."""
_SLOWEST_S = 60.0
_LAST_WRITE_S = 5.0
_CONFIRMATIONS = 48
"""How often, in the longest age, it is written that what is saved is still the newest."""
_AGAIN = Backoff(initial_s=5.0, maximum_s=300.0)
_SHOWN = 10
_MUST_BE_WRITTEN = "; the agent must be able to make, read and write it"
_REMEDIES = {
    errno.EACCES: _MUST_BE_WRITTEN,
    errno.EPERM: _MUST_BE_WRITTEN,
    errno.EROFS: _MUST_BE_WRITTEN,
    errno.ENOSPC: "; it takes up to twice the bytes that may be saved",
    errno.EDQUOT: "; it takes up to twice the bytes that may be saved",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedType:
    """The saved resources of one type: their number, and the size of their file."""

    count: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedStatus:
    """The saved files, and what is wrong with them.

    directory: where. current_at: until when it was known to be the newest; None if nothing is
        saved. types: by type URL.
    problem: why it is not saved, or not used; None if nothing is wrong.
    withheld: names of resources that are left out because they hold a key; some of them.
    writes: how often files were written. waiting_bytes: what is to be written, as it is kept.
    """

    directory: str
    current_at: datetime | None = None
    types: Mapping[str, SavedType]
    problem: str | None = None
    withheld: tuple[str, ...] = ()
    writes: int = 0
    waiting_bytes: int = 0


class _Waiting(NamedTuple):
    """A response that waits to be written; its bytes are compressed if they are many."""

    dialect: Dialect
    response: bytes
    compressed: bool
    replaces: bool
    keep: Callable[[], AbstractSet[str] | None] | None
    refused: AbstractSet[str]
    own: bool = False
    """It is of a type of the agent's own, whose resources may have no names."""

    def smaller(self) -> _Waiting:
        if self.compressed or len(self.response) < _COMPRESSED_FROM:
            return self
        return self._replace(response=zlib.compress(self.response, 1), compressed=True)

    def change(self, keep: AbstractSet[str] | None) -> Change:
        response = zlib.decompress(self.response) if self.compressed else self.response
        dialect = self.dialect
        if self.own:
            response, dialect = numbered(dialect, response), DELTA
        return Change(dialect, response, self.replaces, keep, self.refused)


class SavedConfiguration:
    """The saved configuration of one Envoy; made by `saving`. For one event loop."""

    def __init__(self, config: SavedConfig, control_planes: tuple[str, ...], clock: Clock) -> None:
        self._config = config
        self._control_planes = control_planes
        self._clock = clock
        self._store = Store(config)
        self._in_thread = asyncio.Lock()
        self._node = b""
        self._owner: Owner | None = None
        self._waiting: dict[str, list[_Waiting]] = {}
        self._being_written: Mapping[str, list[_Waiting]] = {}
        self._changed = asyncio.Event()
        self._current = False
        self._current_at = 0.0
        self._confirm = False
        self._loaded = False
        self._files: FileList | None = None
        self._problem: str | None = None
        self._withheld: dict[str, tuple[str, ...]] = {}
        self._writes = 0

    @property
    def status(self) -> SavedStatus:
        """The status at this moment."""
        files = self._files
        return SavedStatus(
            directory=str(self._config.directory),
            current_at=None if files is None else _moment(files.current_at),
            types={}
            if files is None
            else {
                name: SavedType(count=entry.resources, bytes=entry.size)
                for name, entry in files.types.items()
            },
            problem=self._problem,
            withheld=tuple(name for names in self._withheld.values() for name in names)[:_SHOWN],
            writes=self._writes,
            waiting_bytes=self._waiting_bytes(),
        )

    def belongs_to(self, node: bytes) -> None:
        """Name the Envoy whose configuration is saved from now on, by its serialised node."""
        if node == self._node:
            return
        try:
            node_id, cluster, envoy = described_node(node)
        except WireError:
            return
        self._node = node
        facts = {**dict(self._config.owner), "node id": node_id, "cluster": cluster}
        if self._owner is not None and self._owner.facts != facts:
            self._waiting.clear()
            self._files, self._loaded = None, False
        self._owner = Owner(facts, self._control_planes, envoy)

    def accepted(
        self,
        *,
        node: bytes,
        dialect: Dialect,
        type_url: str,
        response: bytes,
        whole: bool,
        keep: Callable[[], AbstractSet[str] | None] | None = None,
        refused_names: AbstractSet[str] = frozenset(),
    ) -> None:
        """Save a response that Envoy accepted, some time later; quick.

        node: Envoy's serialised node. whole: it has all resources of its type.
        keep: called when it is written, returns the names that are kept, None for all.
        refused_names: the names in it that Envoy refused; of these the last good ones are kept.
        """
        self.belongs_to(node)
        if can_be_saved(type_url):
            self._wait(type_url, _Waiting(dialect, response, False, whole, keep, refused_names))

    def own_accepted(self, type_url: str, dialect: Dialect, response: bytes) -> None:
        """Save a response that the agent has accepted for itself; quick."""
        self._wait(type_url, _Waiting(dialect, response, False, True, None, frozenset(), own=True))

    def _wait(self, type_url: str, waiting: _Waiting) -> None:
        if self._owner is None:
            return
        all_ = self._waiting.setdefault(type_url, [])
        if waiting.replaces and not waiting.refused:
            all_.clear()
        all_.append(waiting)
        self._changed.set()

    def answering(self, *, answers: bool) -> None:
        """Note whether the control plane answers, so that what Envoy has is the newest.

        What is saved counts from when it last did.
        """
        if self._current and not answers:
            self._current_at = self._clock.now()
            self._confirm = True
            self._changed.set()
        self._current = answers

    async def load(self) -> datetime | None:
        """Check what is saved for this Envoy; returns until when it was current, None without.

        What can't be used is logged with the reason, and the status has it.
        """
        if self._owner is None:
            return None
        self._loaded = True
        try:
            files = await self._call(partial(self._store.load, self._owner, now=self._clock.now()))
        except (UnusableFile, OSError) as error:
            self._not_used(error)
            return None
        self._files = files
        return None if files is None else _moment(files.current_at)

    async def find(self, type_url: str) -> Resources | None:
        """Return the saved resources of a type by their names, after `load`; None without any."""
        try:
            return await self._call(partial(self._store.resources, type_url))
        except (UnusableFile, OSError) as error:
            self._not_used(error)
            return None

    async def newest(self, type_url: str, node: bytes) -> Resources:
        """Return the resources of a type that Envoy accepted last, also if they wait to be written.

        node: its serialised node. Returns none where what is saved can't be used.
        """
        self.belongs_to(node)
        if not self._loaded:
            await self.load()
        while True:
            writes = self._writes
            unwritten = *self._being_written.get(type_url, ()), *self._waiting.get(type_url, ())
            try:
                found = await self._call(partial(self._merged, type_url, unwritten))
            except (UnusableFile, OSError, WireError) as error:
                self._not_used(error)
                return {}
            if writes == self._writes:
                return found

    def version(self, type_url: str) -> str:
        """Return the version of a type, after `load`; empty if it is not saved."""
        entry = None if self._files is None else self._files.types.get(type_url)
        return "" if entry is None else entry.version

    async def run(self) -> None:
        """Write what was accepted, for as long as this is not cancelled."""
        failures = _AGAIN.delays()
        while True:
            await self._until_changed()
            await self._clock.sleep(_SETTLE_S)
            begun = self._clock.monotonic()
            if await self.write():
                failures = _AGAIN.delays()
                pause_s = _DUTY * (self._clock.monotonic() - begun)
                pause_s = min(max(pause_s, self._config.min_interval_s), _DUTY * _SLOWEST_S)
                await self._pause(pause_s, most_waiting=_MAX_WAITING)
            else:
                await self._pause(next(failures))

    async def write(self) -> bool:
        """Write what waits; returns whether it is on the disk, or never can be."""
        self._changed.clear()
        confirm, self._confirm = self._confirm and self._files is not None, False
        if self._owner is None or not (self._waiting or confirm):
            return True
        if not self._loaded:
            # What comes first may be a part: until the rest comes, the rest is what is saved.
            await self.load()
        waiting, self._waiting = self._waiting, {}
        self._being_written = waiting
        current_at = self._clock.now() if self._current else self._current_at
        try:
            keep = {name: _called(each[-1].keep) for name, each in waiting.items()}
            work = partial(self._save, self._owner, waiting, keep, current_at or self._clock.now())
            files, withheld = await self._call(work)
        except (NotSaved, WireError) as error:
            await self._give_up(str(error))
            return True
        except (UnusableFile, OSError) as error:
            self._failed("the configuration is not saved", _reason(error))
            self._wait_again(waiting, confirm=confirm)
            if self._waiting_bytes() > self._config.max_bytes or self._most_waiting() > _MOST:
                await self._give_up(f"{_reason(error)}; changes are lost")
            return False
        except Exception as error:
            # The boundary to what is saved: Envoy's configuration does not depend on it.
            log.exception("saving the configuration failed")
            await self._give_up(f"internal error ({type(error).__name__})")
            return True
        finally:
            self._being_written = {}
        self._files, self._problem = files, None
        self._writes += 1
        self._tell_withheld(withheld)
        return True

    async def end(self) -> None:
        """Write what waits and let another agent have the directory; takes seconds at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WRITE_S):
                self.answering(answers=False)
                await self.write()
                await self._call(self._store.close)

    async def _give_up(self, reason: str) -> None:
        """Remove what is saved: it would be of no one moment any more, as changes are lost."""
        self._failed("the configuration is not saved", reason)
        self._waiting.clear()
        self._files = None
        with suppress(UnusableFile, OSError):
            await self._call(self._store.remove)

    def _save(
        self,
        owner: Owner,
        waiting: Mapping[str, list[_Waiting]],
        keep: Mapping[str, AbstractSet[str] | None],
        current_at: float,
    ) -> tuple[FileList | None, Mapping[str, tuple[str, ...]]]:
        changes = {
            name: [each.change(keep[name]) for each in responses]
            for name, responses in waiting.items()
        }
        saved = self._store.save(owner, changes, current_at=current_at)
        return saved.files, saved.withheld

    def _merged(self, type_url: str, unwritten: Iterable[_Waiting]) -> Resources:
        saved = self._store.resources(type_url) or {}
        return merged(saved, "", [each.change(None) for each in unwritten]).resources

    def _wait_again(self, waiting: Mapping[str, list[_Waiting]], *, confirm: bool) -> None:
        """Put back what could not be written, before what came meanwhile."""
        for type_url, responses in waiting.items():
            newer = self._waiting.get(type_url, [])
            if not any(each.replaces and not each.refused for each in newer):
                self._waiting[type_url] = [*responses, *newer]
        self._confirm = self._confirm or confirm
        self._changed.set()

    async def _until_changed(self) -> None:
        """Wait for something to write; what is current is confirmed now and then."""
        every_s = self._config.max_age_s / _CONFIRMATIONS
        while not self._changed.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(every_s):
                    await self._changed.wait()
                    return
            if self._current and self._files is not None:
                self._confirm = True
                return

    async def _pause(self, seconds: float, *, most_waiting: int | None = None) -> None:
        """Let so much time pass between two writes, and compress what comes meanwhile."""
        until = self._clock.monotonic() + seconds
        while (left_s := until - self._clock.monotonic()) > 0:
            if most_waiting is not None and self._most_waiting() > most_waiting:
                return
            await self._compress()
            await self._clock.sleep(min(left_s, _SETTLE_S))

    async def _compress(self) -> None:
        for type_url, responses in tuple(self._waiting.items()):
            for index, each in enumerate(responses):
                if each.compressed or len(each.response) < _COMPRESSED_FROM:
                    continue
                smaller = await self._call(each.smaller)
                now = self._waiting.get(type_url)
                if now is responses and index < len(now) and now[index] is each:
                    now[index] = smaller

    def _most_waiting(self) -> int:
        return max(map(len, self._waiting.values()), default=0)

    def _waiting_bytes(self) -> int:
        return sum(len(each.response) for all_ in self._waiting.values() for each in all_)

    async def _call(self, work: Callable[[], T]) -> T:
        """Run a function in a thread; one at a time.

        By the key this also holds for one that was not waited for until its end.
        """
        async with self._in_thread:
            return await run_in_thread(
                work,
                path=self._config.directory / "any",
                key=("saved configuration", self._config.directory),
                timeout_s=None,
            )

    def _not_used(self, error: Exception) -> None:
        if isinstance(error, UnusableDirectory):
            self._failed("configuration is neither saved nor used", _reason(error))
        else:
            self._failed("saved configuration is not used", _reason(error))

    def _failed(self, message: str, reason: str) -> None:
        if reason != self._problem:
            facts = {"directory": str(self._config.directory), "reason": reason}
            log.warning(message, extra=facts)
        self._problem = reason

    def _tell_withheld(self, withheld: Mapping[str, tuple[str, ...]]) -> None:
        for type_url, names in withheld.items():
            if names and names != self._withheld.get(type_url):
                log.warning(
                    "resources with a key in them are not saved",
                    extra={"type_url": type_url, "resources": list(names[:_SHOWN])},
                )
            self._withheld[type_url] = names


@asynccontextmanager
async def saving(
    config: SavedConfig, control_planes: tuple[str, ...], *, clock: Clock | None = None
) -> AsyncIterator[SavedConfiguration]:
    """Save what is accepted for as long as the block runs, and what waits at its end."""
    saved = SavedConfiguration(config, control_planes, clock or SystemClock())
    try:
        async with in_background(saved.run(), name="xds-proxy: saved configuration"):
            yield saved
    finally:
        await saved.end()


def _called(keep: Callable[[], AbstractSet[str] | None] | None) -> AbstractSet[str] | None:
    return None if keep is None else keep()


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=UTC)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        said = error.strerror or str(error)
        return f"{said}{_REMEDIES.get(error.errno or 0, '')}"
    return str(error)
