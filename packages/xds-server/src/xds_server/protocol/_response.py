"""A response as it goes out: its bytes, and the resources in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xds_server.protocol._resource import Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response ready to be written.

    `resources` are those it brings, by name, and `removed` the names that a delta client is told
    are gone. A delta response that only keeps resources from expiring brings them without their
    bodies. Many streams share one mapping, so it must not be changed.
    """

    type_url: str
    nonce: str
    version: str
    data: bytes = field(repr=False)
    resources: Mapping[str, Resource]
    removed: frozenset[str] = frozenset()
