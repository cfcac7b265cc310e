"""Requests of the agent's own that carry no subscription, such as the health of its application."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from xds_proxy.protocol._dialect import Dialect


class InjectedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request of a type that the agent reports with. error: its `error_detail`, None without."""

    type_url: str
    error: str | None


class InjectedRequests:
    """The newest request of each type, for all streams of the relay; synchronous, does no I/O."""

    def __init__(self) -> None:
        self._newest: dict[str, InjectedRequest] = {}

    def __contains__(self, type_url: str) -> bool:
        return type_url in self._newest

    def put(self, request: InjectedRequest) -> None:
        """Replace the request of this type."""
        self._newest[request.type_url] = request

    def to_send(self, dialect: Dialect, sent: dict[str, InjectedRequest]) -> Iterator[bytes]:
        """Yield those that a stream has not sent, and note in `sent` that it has."""
        for type_url, request in self._newest.items():
            if sent.get(type_url) is not request:
                sent[type_url] = request
                yield dialect.write_request(type_url=type_url, error=request.error)
