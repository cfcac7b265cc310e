"""Saves what Envoy accepts, and finds it again for an Envoy that starts without a control plane.

Accepted responses wait until they are written, compressed; they are written a second after the
first of them, and from then on so rarely that writing takes a twentieth of the time at most. All
work on files and contents is done in a thread. What can't be saved is logged, and costs Envoy
nothing.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from mesh_filewatch import run_in_thread
from mesh_lifecycle import Backoff, Clock, SystemClock, in_background
from mesh_protowire import WireError
from xds_proxy._config import SavedConfig
from xds_proxy.protocol._dialect import Dialect
from xds_proxy.protocol._resources import only_prolongs, resources_of
from xds_proxy.protocol._shown import shown_names
from xds_proxy.saved._directory import UnusableDirectory
from xds_proxy.saved._file import FileList, UnusableFile
from xds_proxy.saved._merging import Resources, merge
from xds_proxy.saved._node import described_node
from xds_proxy.saved._saved_status import SavedStatus, SavedType
from xds_proxy.saved._store import NotSaved, Owner, Store, can_be_saved
from xds_proxy.saved._waiting import OfTypes, WaitingResponse, WaitingResponses

log = logging.getLogger("xds_proxy")

T = TypeVar("T")

_SETTLE_S = 1.0
_DUTY = 20.0
"""Writing takes at most one part in so many of the time."""
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


class SavedConfiguration:
    """The saved configuration of one Envoy; created by `saving`. For one event loop."""

    def __init__(self, config: SavedConfig, control_planes: tuple[str, ...], clock: Clock) -> None:
        self._config = config
        self._control_planes = control_planes
        self._clock = clock
        self._store = Store(config)
        self._in_thread = asyncio.Lock()
        self._node = b""
        self._owner: Owner | None = None
        self._waiting = WaitingResponses()
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
            withheld=tuple(
                shown_names([name for names in self._withheld.values() for name in names][:_SHOWN])
            ),
            writes=self._writes,
            waiting_bytes=self._waiting.bytes,
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

    def on_acceptance(
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
        if can_be_saved(type_url) and not (whole and only_prolongs(response)):
            self._wait(
                type_url, WaitingResponse(dialect, response, False, whole, keep, refused_names)
            )

    def on_own_acceptance(
        self, *, node: bytes, dialect: Dialect, type_url: str, response: bytes
    ) -> None:
        """Save a response that the agent has accepted for itself; quick.

        node: that of the Envoy whose stream it came on. It may come before anything of Envoy's.
        """
        self.belongs_to(node)
        if not any(True for _ in resources_of(dialect, response)):
            return  # its interceptor keeps what it has
        self._wait(
            type_url, WaitingResponse(dialect, response, False, True, None, frozenset(), own=True)
        )

    def _wait(self, type_url: str, waiting: WaitingResponse) -> None:
        if self._owner is not None:
            self._waiting.add(type_url, waiting)
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
            self._on_unusable(error)
            return None
        self._files = files
        return None if files is None else _moment(files.current_at)

    async def find(self, type_url: str) -> Resources | None:
        """Return the saved resources of a type by their names, after `load`; None without any."""
        try:
            return await self._call(partial(self._store.resources, type_url))
        except (UnusableFile, OSError) as error:
            self._on_unusable(error)
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
            unwritten = self._waiting.unwritten(type_url)
            try:
                found = await self._call(partial(self._merge, type_url, unwritten))
            except (UnusableFile, OSError, WireError) as error:
                self._on_unusable(error)
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
            await self._wait_for_change()
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
        waiting = self._waiting.begin()
        current_at = self._clock.now() if self._current else self._current_at
        try:
            keep = {name: each[-1].kept_names() for name, each in waiting.items()}
            work = partial(self._save, self._owner, waiting, keep, current_at or self._clock.now())
            files, withheld = await self._call(work)
        except (NotSaved, WireError) as error:
            await self._give_up(str(error))
            return True
        except (UnusableFile, OSError) as error:
            self._on_failure("the configuration is not saved", _reason(error))
            self._waiting.put_back()
            self._confirm = self._confirm or confirm
            self._changed.set()
            if self._waiting.bytes > self._config.max_bytes or self._waiting.most > _MOST:
                await self._give_up(f"{_reason(error)}; changes are lost")
            return False
        except Exception as error:
            # The boundary to what is saved: Envoy's configuration does not depend on it.
            log.exception("saving the configuration failed")
            await self._give_up(f"internal error ({type(error).__name__})")
            return True
        finally:
            self._waiting.written()
        self._files, self._problem = files, None
        self._writes += 1
        self._log_withheld(withheld)
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
        self._on_failure("the configuration is not saved", reason)
        self._waiting.clear()
        self._files = None
        with suppress(UnusableFile, OSError):
            await self._call(self._store.remove)

    def _save(
        self,
        owner: Owner,
        waiting: OfTypes,
        keep: Mapping[str, AbstractSet[str] | None],
        current_at: float,
    ) -> tuple[FileList | None, Mapping[str, tuple[str, ...]]]:
        changes = {
            name: [each.change(keep[name]) for each in responses]
            for name, responses in waiting.items()
        }
        saved = self._store.save(owner, changes, current_at=current_at)
        return saved.files, saved.withheld

    def _merge(self, type_url: str, unwritten: Iterable[WaitingResponse]) -> Resources:
        saved = self._store.resources(type_url) or {}
        return merge(saved, "", [each.change(None) for each in unwritten]).resources

    async def _wait_for_change(self) -> None:
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
            if most_waiting is not None and self._waiting.most > most_waiting:
                return
            await self._waiting.compress(self._call)
            await self._clock.sleep(min(left_s, _SETTLE_S))

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

    def _on_unusable(self, error: Exception) -> None:
        if isinstance(error, UnusableDirectory):
            self._on_failure("configuration is neither saved nor used", _reason(error))
        else:
            self._on_failure("saved configuration is not used", _reason(error))

    def _on_failure(self, message: str, reason: str) -> None:
        if reason != self._problem:
            facts = {"directory": str(self._config.directory), "reason": reason}
            log.warning(message, extra=facts)
        self._problem = reason

    def _log_withheld(self, withheld: Mapping[str, tuple[str, ...]]) -> None:
        for type_url, names in withheld.items():
            if names and names != self._withheld.get(type_url):
                log.warning(
                    "resources with a key in them, or with a time to live, are not saved",
                    extra={"type_url": type_url, "resources": shown_names(names[:_SHOWN])},
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


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=UTC)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        said = error.strerror or str(error)
        return f"{said}{_REMEDIES.get(error.errno or 0, '')}"
    return str(error)
