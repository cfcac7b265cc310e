"""The accepted responses that wait to be written, of each type in their order, compressed."""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from xds_proxy.protocol._dialect import DELTA, Dialect
from xds_proxy.saved._merging import Change, number_resources

_COMPRESSED_FROM = 1 << 16

OfTypes = Mapping[str, "list[WaitingResponse]"]
"""Responses by their type URL, of each type in the order in which they were accepted."""


class WaitingResponse(NamedTuple):
    """A response that waits to be written; its bytes are compressed if they are many."""

    dialect: Dialect
    response: bytes
    compressed: bool
    replaces: bool
    keep: Callable[[], AbstractSet[str] | None] | None
    refused: AbstractSet[str]
    own: bool = False
    """It is of a type of the agent's own, whose resources may have no names."""

    def smaller(self) -> WaitingResponse:
        """Return it compressed, if it is not and may become smaller."""
        if self.compressed or len(self.response) < _COMPRESSED_FROM:
            return self
        return self._replace(response=zlib.compress(self.response, 1), compressed=True)

    def change(self, keep: AbstractSet[str] | None) -> Change:
        """Return it as a change of what is saved. keep: the names that Envoy has after it."""
        response = zlib.decompress(self.response) if self.compressed else self.response
        dialect = self.dialect
        if self.own:
            response, dialect = number_resources(dialect, response), DELTA
        return Change(dialect, response, self.replaces, keep, self.refused)

    def kept_names(self) -> AbstractSet[str] | None:
        """Return the names that Envoy has now; None if that is not known, or all."""
        return None if self.keep is None else self.keep()


class WaitingResponses:
    """The responses that wait, and those that are being written; synchronous but for `compress`."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[WaitingResponse]] = {}
        self._being_written: OfTypes = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, type_url: str, response: WaitingResponse) -> None:
        """Have a response wait; one that has all of its type replaces those before it."""
        all_ = self._waiting.setdefault(type_url, [])
        if response.replaces and not response.refused:
            all_.clear()
        all_.append(response)

    def clear(self) -> None:
        """Drop what waits."""
        self._waiting.clear()

    def begin(self) -> OfTypes:
        """Return what waits, which is being written from now until `written` or `put_back`."""
        waiting, self._waiting = self._waiting, {}
        self._being_written = waiting
        return waiting

    def written(self) -> None:
        """Nothing is being written any more."""
        self._being_written = {}

    def put_back(self) -> None:
        """Have what was begun and could not be written wait again, before what came meanwhile."""
        for type_url, responses in self._being_written.items():
            newer = self._waiting.get(type_url, [])
            if not any(each.replaces and not each.refused for each in newer):
                self._waiting[type_url] = [*responses, *newer]

    def unwritten(self, type_url: str) -> tuple[WaitingResponse, ...]:
        """Return those of a type that are not on the disk, in their order."""
        return *self._being_written.get(type_url, ()), *self._waiting.get(type_url, ())

    @property
    def bytes(self) -> int:
        """How much waits, as it is kept."""
        return sum(len(each.response) for all_ in self._waiting.values() for each in all_)

    @property
    def most(self) -> int:
        """How many wait of the type of which the most do."""
        return max(map(len, self._waiting.values()), default=0)

    async def compress(
        self, call: Callable[[Callable[[], WaitingResponse]], Awaitable[WaitingResponse]]
    ) -> None:
        """Compress what is large. call: runs a function in a thread."""
        for type_url, responses in tuple(self._waiting.items()):
            for index, each in enumerate(responses):
                if each.compressed or len(each.response) < _COMPRESSED_FROM:
                    continue
                smaller = await call(each.smaller)
                now = self._waiting.get(type_url)
                if now is responses and index < len(now) and now[index] is each:
                    now[index] = smaller
