"""The memory that clients make the server keep: of one stream, of one holder, and in all, in bytes.

A client chooses the names that it subscribes to, the versions that it says it has and what its node
says; a caller has any number of streams. So what is kept is counted, and a stream that goes over a
bound ends. In all, it is the holder of most that gives way, not the one that comes last.

Streams that watch the same names share one set, which is counted once for each holder, and once in
all: a thousand sidecars of one shape cost little more than one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import grpc

from xds_server._config import ServerConfig
from xds_server._errors import BadRequest
from xds_server.protocol._node import JSON, Node

_OF_A_NAME = 256
"""Beside a name: what is said of it if no other client asks for it, as that it does not exist."""

_OF_A_VERSION = 512
"""Beside a name and a version that a client says it has: the resource and its place in a table."""

_OF_AN_OBJECT = 16
"""What Python's allocator and garbage collector take beside an object."""

_MIB = 1 << 20


class KeptLimits(NamedTuple):
    """The bounds, in bytes."""

    stream: int
    holder: int
    in_all: int

    @classmethod
    def from_config(cls, config: ServerConfig) -> KeptLimits:
        return cls(
            stream=config.max_kept_bytes_per_stream,
            holder=config.max_kept_bytes_per_identity,
            in_all=config.max_kept_bytes,
        )


class _Shared:
    """A set of names, its bytes, and how many streams have it in all and of each holder."""

    __slots__ = ("holders", "names", "size")

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names  # which keeps its id from being another's
        self.size = size_of_names(names)
        self.holders: dict[str, int] = {}


class _Holder:
    __slots__ = ("size", "streams")

    def __init__(self) -> None:
        self.size = 0
        self.streams: set[KeptOfStream] = set()


class KeptBytes:
    """The bytes that all clients of one server make it keep.

    on_over: called for each stream that ends, by the bound: `stream`, `identity` or `all`.
    """

    def __init__(self, limits: KeptLimits, *, on_over: Callable[[str], None]) -> None:
        self._limits = limits
        self._on_over = on_over
        self._holders: dict[str, _Holder] = {}
        self._shared: dict[int, _Shared] = {}
        self.bytes = 0
        """In all."""

    def of_holder(self, holder: str) -> int:
        """Return the bytes of one holder."""
        known = self._holders.get(holder)
        return 0 if known is None else known.size

    def open_account(self, holder: str, close: Callable[[BadRequest], None]) -> KeptOfStream:
        """Return the account of a new stream. close: ends it when it has to give way."""
        stream = KeptOfStream(self, holder, close)
        self._holders.setdefault(holder, _Holder()).streams.add(stream)
        return stream

    # What accounts of streams call.

    def add(self, holder: str, size: int) -> None:
        self._holders[holder].size += size
        self.bytes += size

    def share(self, holder: str, names: frozenset[str]) -> int:
        """Count a set of names for a stream of a holder; return its bytes."""
        shared = self._shared.get(id(names))
        if shared is None:
            shared = self._shared[id(names)] = _Shared(names)
            self.bytes += shared.size
        streams = shared.holders.get(holder, 0)
        shared.holders[holder] = streams + 1
        if not streams:
            self._holders[holder].size += shared.size
        return shared.size

    def unshare(self, holder: str, names: frozenset[str]) -> int:
        """Take the set from a stream of a holder; return its bytes."""
        shared = self._shared[id(names)]
        shared.holders[holder] -= 1
        if not shared.holders[holder]:
            del shared.holders[holder]
            self._holders[holder].size -= shared.size
        if not shared.holders:
            del self._shared[id(names)]
            self.bytes -= shared.size
        return shared.size

    def check(self, stream: KeptOfStream) -> None:
        """Let streams end until all bounds are kept. Raises `BadRequest` if it is this one."""
        limits, holder = self._limits, stream.holder
        if stream.bytes > limits.stream:
            self._on_over("stream")
            raise _over("one stream", stream.bytes, limits.stream, "max_kept_bytes_per_stream")
        if (size := self.of_holder(holder)) > limits.holder:
            self._on_over("identity")
            raise _over(
                f"all streams of {holder}", size, limits.holder, "max_kept_bytes_per_identity"
            )
        while self.bytes > limits.in_all:
            most = max(self._holders, key=self.of_holder)
            largest = max(self._holders[most].streams, key=lambda each: each.bytes)
            self._on_over("all")
            over = _over("all clients", self.bytes, limits.in_all, "max_kept_bytes")
            if most == holder:
                raise over
            largest.close(over)
            largest.release()

    def close_account(self, stream: KeptOfStream) -> None:
        known = self._holders[stream.holder]
        known.streams.discard(stream)
        if not known.streams:
            del self._holders[stream.holder]


class KeptOfStream:
    """The bytes that one stream makes the server keep."""

    __slots__ = ("_kept", "_names", "_open", "_own", "_values", "bytes", "close", "holder")

    def __init__(self, kept: KeptBytes, holder: str, close: Callable[[BadRequest], None]) -> None:
        self.holder = holder
        self.close = close
        self.bytes = 0
        self._kept = kept
        self._names: dict[str, frozenset[str]] = {}
        self._values: dict[str, int] = {}
        self._own = 0
        self._open = True

    def watch(self, type_url: str, names: frozenset[str]) -> None:
        """The names that it watches of a type are these now. Raises `BadRequest`."""
        before = self._names.get(type_url)
        if before is names or not (names or before) or not self._open:
            return
        if before:
            del self._names[type_url]
            self.bytes -= self._kept.unshare(self.holder, before)
        if names:
            self._names[type_url] = names
            self.bytes += self._kept.share(self.holder, names)
        self._kept.check(self)

    def keep(self, what: str, size: int) -> None:
        """Of this, such as its node, so many bytes are kept now. Raises `BadRequest`."""
        before = self._values.get(what, 0)
        if before == size or not self._open:
            return
        if size:
            self._values[what] = size
        else:
            del self._values[what]
        self.bytes += size - before
        self._own += size - before
        self._kept.add(self.holder, size - before)
        if size > before:
            self._kept.check(self)

    def bytes_of(self, what: str) -> int:
        """Return the bytes that are counted of something."""
        return self._values.get(what, 0)

    def release(self) -> None:
        """Forget the stream, which is over or about to be; do nothing the second time."""
        if not self._open:
            return
        self._open = False
        self.close = _is_over  # and so the stream, with all it has, is in no cycle with this
        for names in self._names.values():
            self._kept.unshare(self.holder, names)
        self._kept.add(self.holder, -self._own)
        self._names.clear()
        self._values.clear()
        self.bytes = self._own = 0
        self._kept.close_account(self)


def _is_over(_because: BadRequest) -> None:
    """There is nothing to close any more."""


def _over(whose: str, size: int, most: int, knob: str) -> BadRequest:
    return BadRequest(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        f"the names, versions, nodes and requests of {whose} take {size / _MIB:.1f} MiB, of which"
        f" at most {most / _MIB:.1f} MiB are kept ({knob}): subscribe to fewer names or on fewer"
        " streams",
    )


def size_of_names(names: frozenset[str]) -> int:
    """Return about the bytes of a set of names that no other client has."""
    return sys.getsizeof(names) + sum(map(sys.getsizeof, names)) + _OF_A_NAME * len(names)


def size_of_versions(versions: Mapping[str, str]) -> int:
    """Return about the bytes of resources that are known by name and version."""
    texts: Iterable[int] = map(sys.getsizeof, versions.values())
    names = map(sys.getsizeof, versions)
    return sum(texts) + sum(names) + _OF_A_VERSION * len(versions)


def size_of_node(node: Node) -> int:
    """Return about the bytes of a node, which is parsed into Python values."""
    own = (node.id, node.cluster, node.region, node.zone, node.sub_zone, node.user_agent)
    return sum(map(sys.getsizeof, own)) + _size_of_value(dict(node.metadata))


def _size_of_value(value: JSON) -> int:
    size, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        size += sys.getsizeof(each) + _OF_AN_OBJECT
        if isinstance(each, Mapping):
            size += sum(map(sys.getsizeof, each))
            waiting.extend(each.values())
        elif isinstance(each, list | tuple):
            waiting.extend(each)
    return size
