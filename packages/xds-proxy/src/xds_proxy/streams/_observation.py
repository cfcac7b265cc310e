"""Telling somebody of what passes to Envoy, and of when Envoy is done with it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

log = logging.getLogger("xds_proxy")

_MAX_TYPES = 1024


class ResponseObserver(Protocol):
    """Hears of responses around the time they change Envoy, for whoever must act around that.

    Called on the event loop, between two messages of a stream: it must be quick. What it raises is
    logged and harms no stream. With several Envoys (hot restart) it hears of all of them.
    """

    def passing(self, type_url: str) -> None:
        """A response of this type is about to be given to Envoy."""

    def settled(self, type_url: str) -> None:
        """Envoy has accepted or refused the last response of this type that passed to it."""


class Observation:
    """What passed and waits for an answer, on all streams; decides when a type is settled.

    Envoy answers in order, so only the newest response of a type and stream counts. A stream that
    ends takes its open answers along untold: whether Envoy was done with them nobody knows. The
    next stream's answers will tell.
    """

    def __init__(self, observer: ResponseObserver | None) -> None:
        self._observer = observer
        self._awaited: dict[str, dict[object, str]] = {}

    def passing(self, stream: object, type_url: str, nonce: str) -> None:
        """A response is about to go to Envoy."""
        if self._observer is None:
            return
        if type_url in self._awaited or len(self._awaited) < _MAX_TYPES:
            self._awaited.setdefault(type_url, {})[stream] = nonce
        _tell(self._observer.passing, type_url)

    def answered(self, stream: object, type_url: str, nonce: str) -> None:
        """Envoy sent a request with this nonce."""
        awaited = self._awaited.get(type_url)
        if self._observer is None or awaited is None or awaited.get(stream) != nonce:
            return
        del awaited[stream]
        if not awaited:
            del self._awaited[type_url]
            _tell(self._observer.settled, type_url)

    def ended(self, stream: object) -> None:
        """A stream has ended."""
        for type_url, awaited in tuple(self._awaited.items()):
            awaited.pop(stream, None)
            if not awaited:
                del self._awaited[type_url]


def _tell(tell: Callable[[str], None], type_url: str) -> None:
    try:
        tell(type_url)
    except Exception:
        # The boundary to whoever listens in: Envoy's configuration does not depend on them.
        log.exception("an observer failed", extra={"type_url": type_url})
