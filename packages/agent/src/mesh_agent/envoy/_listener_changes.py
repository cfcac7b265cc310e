"""Tells the supervisor when Envoy's listeners change, from what the relay sees."""

from typing import Protocol

from mesh_protos import type_urls


class HoldsSockets(Protocol):
    """Holds the sockets that Envoy listens on, and must not hold those it closes."""

    def listeners_changing(self) -> None: ...

    def listeners_changed(self) -> None: ...


class ListenerChanges:
    """What the relay sees of listeners, told to the supervisor, which holds Envoy's sockets.

    envoy: set once it is started; before, nothing passes.
    """

    def __init__(self) -> None:
        self.envoy: HoldsSockets | None = None

    def response_arrived(self, type_url: str) -> None:
        """Envoy gets new listeners next."""
        if self.envoy is not None and type_url == type_urls.LISTENER:
            self.envoy.listeners_changing()

    def responses_answered(self, type_url: str) -> None:
        """Every Envoy has accepted or refused them."""
        if self.envoy is not None and type_url == type_urls.LISTENER:
            self.envoy.listeners_changed()
