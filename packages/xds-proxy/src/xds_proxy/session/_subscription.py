"""The subscription to one type, so that the next upstream stream can be asked for it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from mesh_protowire import BYTES, bytes_field, fields, scan, text, without
from xds_proxy.protocol._dialect import DELTA, STATE_OF_THE_WORLD, Dialect, Request

_WILDCARD = "*"
_ENTRY_KEY, _ENTRY_VALUE = 1, 2
_ENTRY = frozenset({_ENTRY_KEY, _ENTRY_VALUE})


class Subscription(Protocol):
    """The subscription to one type on one stream of Envoy's; synchronous, does no I/O."""

    def on_request(self, raw: bytes, request: Request) -> None:
        """Envoy sent a request of this type."""

    def on_forward(self, raw: bytes) -> None:
        """The upstream stream got this request of Envoy's, or the subscription that is in it."""

    def again(self, held: Mapping[str, str]) -> bytes | None:
        """Return the request that subscribes on a new upstream stream; None if Envoy has ended it.

        held: the version of each resource that Envoy has.
        """

    def change(self, raw: bytes, request: Request) -> bytes | None:
        """Return what a request says besides answering a response; None if that is nothing new."""

    def asked_for(self) -> frozenset[str] | None:
        """Return the names of the resources that Envoy wants now; None for all of them."""

    def refusal(self, nonce: str, error: str) -> bytes:
        """Return a request that refuses a response (NACK) and leaves the subscription as it is."""

    def names(self) -> frozenset[str]:
        """Return the names that are subscribed to; empty if that is all resources, and no more."""

    @property
    def size(self) -> int:
        """About the bytes that are kept."""


def subscription(dialect: Dialect, type_url: str) -> Subscription:
    """Return the subscription to a type before its first request."""
    return DeltaSubscription(type_url) if dialect is DELTA else SotwSubscription()


class SotwSubscription:
    """In state of the world, each request has the whole subscription, and Envoy's version."""

    _ANSWER = frozenset({STATE_OF_THE_WORLD.request_nonce, STATE_OF_THE_WORLD.request_error})
    _NOT_SUBSCRIPTION = _ANSWER | {
        STATE_OF_THE_WORLD.request_version,
        STATE_OF_THE_WORLD.request_node,
    }

    def __init__(self) -> None:
        self._newest = b""
        self._forwarded: bytes | None = None
        self._named_resources = False

    def on_request(self, raw: bytes, request: Request) -> None:
        self._newest = raw
        if not self._named_resources and _has_more(raw, request):
            self._named_resources = _names_resources(raw)

    def on_forward(self, raw: bytes) -> None:
        self._forwarded = raw

    def again(self, held: Mapping[str, str]) -> bytes | None:  # noqa: ARG002 - it has a version
        self._forwarded = self._newest
        if self._named_resources and not _names_resources(self._newest):
            # On a new stream, a request without names would subscribe to all resources.
            return None
        return without(self._newest, self._ANSWER)

    def change(self, raw: bytes, request: Request) -> bytes | None:  # noqa: ARG002
        if self._forwarded is not None and self._without_answer(
            self._forwarded
        ) == self._without_answer(raw):
            return None
        return without(raw, self._ANSWER)

    def refusal(self, nonce: str, error: str) -> bytes:
        answer = STATE_OF_THE_WORLD.write_request(type_url="", nonce=nonce, error=error)
        return without(self._newest, self._ANSWER) + answer

    def names(self) -> frozenset[str]:
        """Return the names of the newest request; empty for all resources."""
        number = STATE_OF_THE_WORLD.request_subscribe
        spans = scan(self._newest, frozenset({number})).get(number, ())
        return frozenset(text(self._newest, [span]) for span in spans)

    def asked_for(self) -> frozenset[str] | None:
        names = self.names()
        return names if names or self._named_resources else None

    @property
    def size(self) -> int:
        return len(self._newest)

    def _without_answer(self, raw: bytes) -> bytes:
        return without(raw, self._NOT_SUBSCRIPTION)


class DeltaSubscription:
    """In delta, requests add names and take names away."""

    _ANSWER = frozenset({DELTA.request_nonce, DELTA.request_error})

    def __init__(self, type_url: str) -> None:
        self._type_url = type_url
        self._names: dict[str, None] = {}
        self._all_without_saying_so = False
        """The first request named nothing, which is how Envoy asks for all of some types."""
        self._only: bytes | None = None
        """The first request, while there was no other and no response."""
        self._requests = 0
        self._size = 0

    @property
    def wildcard(self) -> bool:
        """Whether all resources are subscribed to."""
        return self._all_without_saying_so or _WILDCARD in self._names

    def on_request(self, raw: bytes, request: Request) -> None:
        subscribed = self._at(raw, request, DELTA.request_subscribe)
        unsubscribed = self._at(raw, request, DELTA.request_unsubscribe)
        self._requests += 1
        self._only = raw if self._requests == 1 else None
        if self._requests == 1:
            self._all_without_saying_so = not subscribed
        for name in subscribed:
            if name not in self._names:
                self._names[name] = None
                self._size += len(name)
        for name in unsubscribed:
            if name == _WILDCARD:
                self._all_without_saying_so = False
            if name in self._names:
                del self._names[name]
                self._size -= len(name)

    def find_unsubscribed(self, raw: bytes, request: Request) -> list[str]:
        """Return the names that a request takes away for good: not those of a wildcard's."""
        if self.wildcard:
            return []
        return self._at(raw, request, DELTA.request_unsubscribe)

    def asked_for(self) -> frozenset[str] | None:
        return None if self.wildcard else frozenset(self._names)

    def subscribes_to(self, name: str) -> bool:
        """Return whether a resource is asked for by its name, or with all."""
        return self.wildcard or name in self._names

    def names(self) -> frozenset[str]:
        return frozenset(self._names)

    def on_forward(self, raw: bytes) -> None:
        """Each request is a change; there is nothing to compare the next one with."""

    def on_answer(self) -> None:
        """Envoy has a response: its first request no longer says what it has."""
        self._only = None

    def again(self, held: Mapping[str, str]) -> bytes | None:
        if self._only is not None:
            return without(self._only, self._ANSWER)
        names = list(self._names)
        if self._all_without_saying_so and names and _WILDCARD not in self._names:
            names.insert(0, _WILDCARD)
        if not names and not self._all_without_saying_so:
            return None
        parts = [bytes_field(DELTA.request_subscribe, name.encode()) for name in names]
        parts.append(DELTA.write_request(type_url=self._type_url, held=held))
        return b"".join(parts)

    def change(self, raw: bytes, request: Request) -> bytes | None:
        if not any(
            request.changes.get(number)
            for number in (DELTA.request_subscribe, DELTA.request_unsubscribe)
        ):
            return None
        return without(raw, self._ANSWER)

    def refusal(self, nonce: str, error: str) -> bytes:
        return DELTA.write_request(type_url=self._type_url, nonce=nonce, error=error)

    @property
    def size(self) -> int:
        return self._size + 100 * len(self._names) + len(self._only or b"")

    def _at(self, raw: bytes, request: Request, number: int) -> list[str]:
        return [text(raw, [span]) for span in request.changes.get(number, ())]


def held_versions(raw: bytes, request: Request) -> dict[str, str]:
    """Return the versions of resources that a delta request says Envoy has. Raises WireError."""
    held = {}
    for span in request.changes.get(DELTA.request_held_versions, ()):
        found = scan(raw, _ENTRY, *span)
        held[text(raw, found.get(_ENTRY_KEY))] = text(raw, found.get(_ENTRY_VALUE))
    return held


def _has_more(raw: bytes, request: Request) -> bool:
    """Return whether a request has fields besides those that were read; quicker than to look."""
    read = 0
    for spans in request.changes.values():
        for start, end in spans:
            read += end - start + (2 if end - start < 128 else 3 if end - start < 16384 else 4)
    return read != len(raw)


def _names_resources(raw: bytes) -> bool:
    number = STATE_OF_THE_WORLD.request_subscribe
    return any(found.number == number and found.kind == BYTES for found in fields(raw))
