"""Tells an observer of the responses that Envoy gets, and of when Envoy has answered them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

log = logging.getLogger("xds_proxy")

_MAX_TYPES = 1024


class ResponseObserver(Protocol):
    """Observes responses before they reach Envoy and after Envoy has answered them.

    Called on the event loop, between two messages of a stream: it must be quick. An exception that
    it raises is logged and ends no stream. With several Envoys (hot restart) it observes the
    responses to all of them.
    """

    def on_response(self, type_url: str) -> None:
        """A response of this type has arrived from the control plane; Envoy gets it next."""

    def on_answer(self, type_url: str) -> None:
        """Every Envoy has accepted or refused the last response of this type that it got."""


class Observation:
    """The responses without an answer, on all streams; decides when all of a type are answered.

    Envoy answers in order, so only the newest response of a type and stream counts. When a stream
    ends, its unanswered responses are dropped without calling `on_answer`, as nothing is
    known of what Envoy did with them. The answers on the next stream are reported again.
    """

    def __init__(self, observer: ResponseObserver | None) -> None:
        self._observer = observer
        self._unanswered: dict[str, dict[object, object]] = {}

    def on_response(self, stream: object, type_url: str, response: object) -> None:
        """A response is about to be sent to Envoy. response: any object that is this one alone."""
        if self._observer is None:
            return
        if type_url in self._unanswered or len(self._unanswered) < _MAX_TYPES:
            self._unanswered.setdefault(type_url, {})[stream] = response
        _call(self._observer.on_response, type_url)

    def on_answer(self, stream: object, type_url: str, response: object) -> None:
        """Envoy answered a response."""
        unanswered = self._unanswered.get(type_url)
        if self._observer is None or unanswered is None or unanswered.get(stream) != response:
            return
        del unanswered[stream]
        if not unanswered:
            del self._unanswered[type_url]
            _call(self._observer.on_answer, type_url)

    def on_stream_end(self, stream: object) -> None:
        """Drop the unanswered responses of a stream."""
        for type_url, unanswered in tuple(self._unanswered.items()):
            unanswered.pop(stream, None)
            if not unanswered:
                del self._unanswered[type_url]


def _call(observe: Callable[[str], None], type_url: str) -> None:
    try:
        observe(type_url)
    except Exception:
        # The boundary to the observer: Envoy's configuration does not depend on it.
        log.exception("an observer failed", extra={"type_url": type_url})
