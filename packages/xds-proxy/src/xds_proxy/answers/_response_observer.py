"""Tells an observer of the responses that Envoy gets, and of when Envoy has answered them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

log = logging.getLogger("xds_proxy")

_MAX_TYPES = 1024


class ResponseObserver(Protocol):
    """Is told of responses before they reach Envoy and after Envoy has answered them.

    Called on the event loop, between two messages of a stream: it must be quick. An exception that
    it raises is logged and ends no stream. With several Envoys (hot restart) it is told of the
    responses to all of them.
    """

    def response_arrived(self, type_url: str) -> None:
        """A response of this type has arrived from the control plane; Envoy gets it next."""

    def responses_answered(self, type_url: str) -> None:
        """Every Envoy has accepted or refused the last response of this type that it got."""


class Observation:
    """The responses without an answer, on all streams; decides when all of a type are answered.

    Envoy answers in order, so only the newest response of a type and stream counts. When a stream
    ends, its unanswered responses are dropped without calling `responses_answered`, as nothing is
    known of what Envoy did with them. The answers on the next stream are told again.
    """

    def __init__(self, observer: ResponseObserver | None) -> None:
        self._observer = observer
        self._unanswered: dict[str, dict[object, object]] = {}

    def response_arrived(self, stream: object, type_url: str, response: object) -> None:
        """A response is about to be sent to Envoy. response: any object that is this one alone."""
        if self._observer is None:
            return
        if type_url in self._unanswered or len(self._unanswered) < _MAX_TYPES:
            self._unanswered.setdefault(type_url, {})[stream] = response
        _call(self._observer.response_arrived, type_url)

    def response_answered(self, stream: object, type_url: str, response: object) -> None:
        """Envoy answered a response."""
        unanswered = self._unanswered.get(type_url)
        if self._observer is None or unanswered is None or unanswered.get(stream) != response:
            return
        del unanswered[stream]
        if not unanswered:
            del self._unanswered[type_url]
            _call(self._observer.responses_answered, type_url)

    def stream_ended(self, stream: object) -> None:
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
