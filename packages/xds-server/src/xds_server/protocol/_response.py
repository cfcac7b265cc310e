"""A response as it goes out: its bytes, and the resources in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xds_server.protocol._resource import Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response ready to be written.

    `resources` are those it brings, by name, and `removed` the names that a delta client is sent
    are gone. A delta response that only keeps resources from expiring brings them without their
    bodies. Many streams share one mapping, so it must not be changed.

    `body` are the bytes that streams share, which may be megabytes, and `tail` those of one stream.
    """

    type_url: str
    nonce: str
    version: str
    body: bytes = field(repr=False)
    tail: bytes = field(repr=False)
    resources: Mapping[str, Resource]
    removed: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        """The number of bytes of `data`."""
        return len(self.body) + len(self.tail)

    @property
    def data(self) -> bytes:
        """The whole message: a copy for this stream."""
        return self.body + self.tail
