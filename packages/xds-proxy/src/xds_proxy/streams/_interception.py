"""The types that the agent itself consumes: subscribed to, taken and answered in Envoy's place."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from xds_proxy._errors import InterceptorRefused
from xds_proxy.protocol._dialect import Dialect, Response, resource_bodies
from xds_proxy.status._delivery_status import Ledger, TypeStatus

log = logging.getLogger("xds_proxy")


class Interceptor(Protocol):
    """Consumes one resource type in Envoy's place; the relay subscribes and answers for it."""

    @property
    def type_url(self) -> str:
        """The type it takes, for example that of the name table."""

    def take(self, response: bytes) -> None:
        """Use a response; it is ACKed if this returns.

        `response` is a serialised DiscoveryResponse with at least one resource, on delta streams
        too. Called on the event loop: it must not block.

        Raises:
            InterceptorRefused: the response cannot be used; the text is sent as the NACK's message.
        """


class Interception:
    """All interceptors and what they have taken so far; one for all streams of the relay."""

    def __init__(self, interceptors: Sequence[Interceptor], *, now: Callable[[], datetime]) -> None:
        self._interceptors = {interceptor.type_url: interceptor for interceptor in interceptors}
        self._now = now
        self._ledger = Ledger()
        self.refusals = 0

    @property
    def types(self) -> Mapping[str, TypeStatus]:
        """What was taken and refused, by type URL."""
        return self._ledger.types

    def wants(self, type_url: str) -> bool:
        """Whether responses of this type are the agent's own."""
        return type_url in self._interceptors

    def subscriptions(self, dialect: Dialect) -> tuple[bytes, ...]:
        """The requests that ask for these types."""
        return tuple(dialect.write_request(type_url=type_url) for type_url in self._interceptors)

    def take(self, dialect: Dialect, response: bytes, peeked: Response) -> bytes:
        """Hand a response to its interceptor; returns the ACK or NACK. Raises WireError."""
        type_url, now = peeked.type_url, self._now()
        self._ledger.sent(
            type_url=type_url,
            version=peeked.version,
            nonce=peeked.nonce,
            at=now,
            control_plane=peeked.control_plane,
        )
        error = _taken(self._interceptors[type_url], dialect.state_of_the_world(response))
        self._ledger.answered(type_url=type_url, nonce=peeked.nonce, error=error, at=now)
        if error is not None:
            self.refusals += 1
            log.warning(
                "the agent refused a configuration and keeps the last good one",
                extra={"type_url": type_url, "version": peeked.version, "reason": error},
            )
        return dialect.write_request(
            type_url=type_url,
            version=peeked.version if error is None else self._ledger.in_use(type_url),
            nonce=peeked.nonce,
            error=error,
        )


def _taken(interceptor: Interceptor, response: bytes) -> str | None:
    """Why the interceptor refused the response, None if it took it."""
    if not resource_bodies(response):
        return (
            None  # nothing in it: what was taken before stays, and the control plane gets its ACK
        )
    try:
        interceptor.take(response)
    except InterceptorRefused as error:
        return str(error) or "refused"
    except Exception as error:
        log.exception("an interceptor failed", extra={"type_url": interceptor.type_url})
        return f"internal error ({type(error).__name__})"
    return None
