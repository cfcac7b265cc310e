"""Observers of streams: called for clients that come and go, for requests and responses."""

from __future__ import annotations

from typing import Protocol, TypeVar

from xds_server.protocol._request import DeltaRequest, SotwRequest
from xds_server.protocol._response import Response
from xds_server.sources._generator import Client

C_contra = TypeVar("C_contra", contravariant=True)


class StreamObserver(Protocol[C_contra]):
    """Called for what streams do, as they do it. Synchronous, and quick: every stream waits for it.

    Raising `Refused` from `on_open` or `on_request` ends the stream with that status; anything else
    raised ends it with INTERNAL.
    """

    def on_open(self, client: Client[C_contra], /) -> None:
        """A client was admitted."""
        ...

    def on_request(self, client: Client[C_contra], request: SotwRequest | DeltaRequest, /) -> None:
        """A request came in, of a type that is served or of any other."""
        ...

    def on_response(self, client: Client[C_contra], response: Response, /) -> None:
        """A response went out."""
        ...

    def on_close(self, client: Client[C_contra], /) -> None:
        """The stream is over."""
        ...


class NullObserver:
    """An observer that does nothing; a base for observers of some of the events."""

    def on_open(self, client: Client[object], /) -> None:
        """A client was admitted."""

    def on_request(self, client: Client[object], request: SotwRequest | DeltaRequest, /) -> None:
        """A request came in."""

    def on_response(self, client: Client[object], response: Response, /) -> None:
        """A response went out."""

    def on_close(self, client: Client[object], /) -> None:
        """The stream is over."""
