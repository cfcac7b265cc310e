"""The resources that an Envoy of this node refused, each known by the digest of its body.

A refusal counts for exactly that body and that build of Envoy: another body of the resource, its
removal, an Envoy that accepts it, and another build each end it.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from mesh_protowire import WireError, scan, text
from xds_proxy.protocol._shown import NAME, shorten

log = logging.getLogger("xds_proxy")

_MOST = 1024
_BUILD_NAME, _BUILD_TEXT, _BUILD_VERSION = 6, 7, 8
_VERSION, _METADATA, _STRUCT_FIELDS = 1, 2, 1
Build = tuple[bytes, ...]


class QuarantinedResource(NamedTuple):
    """A resource that an Envoy without an older version of it does not get.

    version: of the response in state of the world, of the resource in delta. reason: in Envoy's
    words. since: when it was first refused (UTC).
    """

    type_url: str
    name: str
    version: str
    reason: str
    since: datetime


class _Entry(NamedTuple):
    digest: bytes
    build: Build
    version: str
    reason: str
    since: float


class Quarantine:
    """Of all Envoys of one relay; synchronous, does no I/O. now: the Unix time."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.types: dict[str, dict[str, _Entry]] = {}
        """By type URL and name; a type without any is not there."""

    @property
    def resources(self) -> tuple[QuarantinedResource, ...]:
        """The resources in quarantine."""
        return tuple(
            QuarantinedResource(
                type_url,
                shorten(name, NAME),
                shorten(each.version, NAME),
                each.reason,
                datetime.fromtimestamp(each.since, UTC),
            )
            for type_url, named in self.types.items()
            for name, each in named.items()
        )

    def on_refusal(
        self, type_url: str, name: str, body: bytes, *, version: str, reason: str, build: Build
    ) -> None:
        """An Envoy refused this body. With 1024 in quarantine, further ones are not noted."""
        reason = shorten(reason)
        named = self.types.get(type_url, {})
        before = named.get(name)
        if before is None and sum(map(len, self.types.values())) >= _MOST:
            return
        digest, since = _digest(body), self._now()
        if before is not None and before.digest == digest and before.build == build:
            since = before.since
        else:
            log.info(
                "a refused resource is in quarantine: an Envoy that has no older version of it "
                "gets the last good one",
                extra={"type_url": type_url, "resource": shorten(name, NAME), "reason": reason},
            )
        self.types.setdefault(type_url, {})[name] = _Entry(digest, build, version, reason, since)

    def on_acceptance(self, type_url: str, bodies: Mapping[str, bytes]) -> None:
        """An Envoy accepted these bodies."""
        for name, entry in tuple(self.types.get(type_url, {}).items()):
            if name in bodies and _digest(bodies[name]) == entry.digest:
                self._end(type_url, name, "Envoy accepts it")

    def on_response(
        self,
        type_url: str,
        bodies: Mapping[str, bytes],
        *,
        removed: Iterable[str] = (),
        whole: bool = False,
    ) -> None:
        """The control plane sent these bodies. whole: others of the type are gone."""
        gone = set(removed)
        for name, entry in tuple(self.types.get(type_url, {}).items()):
            if name in bodies:
                if _digest(bodies[name]) != entry.digest:
                    self._end(type_url, name, "the control plane has another one")
            elif whole or name in gone:
                self._end(type_url, name, "the control plane has removed it")

    def among(self, type_url: str, bodies: Mapping[str, bytes], build: Build) -> Mapping[str, str]:
        """Return the names of those bodies that are in quarantine for a build, with the reasons."""
        return {
            name: entry.reason
            for name, entry in self.types.get(type_url, {}).items()
            if name in bodies and entry.build == build and _digest(bodies[name]) == entry.digest
        }

    def has(self, type_url: str, name: str, body: bytes) -> bool:
        """Return whether this body is in quarantine, for whichever build."""
        entry = self.types.get(type_url, {}).get(name)
        return entry is not None and entry.digest == _digest(body)

    def _end(self, type_url: str, name: str, reason: str) -> None:
        named = self.types[type_url]
        del named[name]
        if not named:
            del self.types[type_url]
        log.info(
            "a resource is no longer in quarantine",
            extra={"type_url": type_url, "resource": shorten(name, NAME), "reason": reason},
        )


def build_of(node: bytes) -> Build:
    """Return what distinguishes builds of Envoy, from a serialised node; empty for a damaged one.

    The entries of a map have no order, and it differs from one process to the next.
    """
    try:
        found = scan(node, frozenset({_BUILD_NAME, _BUILD_TEXT, _BUILD_VERSION}))
        build = [text(node, found.get(number)).encode() for number in (_BUILD_NAME, _BUILD_TEXT)]
        for start, end in found.get(_BUILD_VERSION, ()):
            parts = scan(node, frozenset({_VERSION, _METADATA}), start, end)
            build += (node[a:b] for a, b in parts.get(_VERSION, ()))
            for a, b in parts.get(_METADATA, ()):
                entries = scan(node, frozenset({_STRUCT_FIELDS}), a, b).get(_STRUCT_FIELDS, ())
                build += sorted(node[x:y] for x, y in entries)
    except WireError:
        return ()
    return tuple(build)


def join_reasons(reasons: Mapping[str, str], names: Collection[str]) -> str:
    """Return the reasons as the text of one refusal."""
    if len(names) == 1:
        return reasons[next(iter(names))]
    return "; ".join(f"{name}: {reasons[name]}" for name in sorted(names))


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()
