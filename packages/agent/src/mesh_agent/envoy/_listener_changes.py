"""Tells the supervisor when Envoy's listeners change, from what the relay sees."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from mesh_protos import type_urls


class HoldsSockets(Protocol):
    """Holds the sockets that Envoy listens on, and must not hold those that Envoy closes."""

    def listeners_changing(self) -> None:
        """A response with listeners is about to go to Envoy."""

    def listeners_changed(self) -> None:
        """Envoy has accepted or refused the last response with listeners."""


class ListenerChanges:
    """Observes the relay's responses; a response with listeners is reported to the subscribers.

    Without a subscriber there is no Envoy yet, and nothing to tell.
    """

    def __init__(self) -> None:
        self._subscribers: list[HoldsSockets] = []

    @contextmanager
    def reporting_to(self, holder: HoldsSockets) -> Iterator[None]:
        """Tell `holder` of changes while the block runs."""
        self._subscribers.append(holder)
        try:
            yield
        finally:
            self._subscribers.remove(holder)

    def on_response(self, type_url: str) -> None:
        """A response of this type is about to go to Envoy."""
        if type_url == type_urls.LISTENER:
            for each in self._subscribers:
                each.listeners_changing()

    def on_answer(self, type_url: str) -> None:
        """Envoy has accepted or refused the last response of this type."""
        if type_url == type_urls.LISTENER:
            for each in self._subscribers:
                each.listeners_changed()
