"""The types that the agent itself consumes: the relay subscribes to them and answers for Envoy."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from xds_proxy._errors import InterceptorRefused
from xds_proxy.protocol._dialect import Dialect, Response, resource_bodies
from xds_proxy.status._acks_and_nacks import DeliveryStatus, TypeStatus

log = logging.getLogger("xds_proxy")


class Interceptor(Protocol):
    """Consumes one resource type in Envoy's place; the relay subscribes and answers for it."""

    @property
    def type_url(self) -> str:
        """The type that is intercepted, for example that of the name table."""

    def apply(self, response: bytes) -> None:
        """Use a response; it is ACKed if this returns.

        `response` is a serialised DiscoveryResponse with at least one resource, on delta streams
        too. Called on the event loop: it must not block.

        Raises:
            InterceptorRefused: the response cannot be used; the text is sent as the NACK's message.
        """


class Interception:
    """All interceptors and the delivery status of their types, for all streams of the relay."""

    def __init__(self, interceptors: Sequence[Interceptor], *, now: Callable[[], datetime]) -> None:
        self._interceptors = {interceptor.type_url: interceptor for interceptor in interceptors}
        self._now = now
        self._delivery_status = DeliveryStatus()
        self.refusals = 0

    @property
    def types(self) -> Mapping[str, TypeStatus]:
        """The delivery status of the intercepted types, by type URL."""
        return self._delivery_status.types

    def intercepts(self, type_url: str) -> bool:
        """Say whether responses of this type are for the agent."""
        return type_url in self._interceptors

    def subscriptions(self, dialect: Dialect) -> tuple[bytes, ...]:
        """Return the requests that subscribe to the intercepted types."""
        return tuple(dialect.write_request(type_url=type_url) for type_url in self._interceptors)

    def answer(self, dialect: Dialect, response: bytes, peeked: Response) -> bytes:
        """Give a response to its interceptor. Returns the ACK or NACK. Raises WireError."""
        type_url, now = peeked.type_url, self._now()
        self._delivery_status.response_sent(
            type_url=type_url,
            version=peeked.version,
            nonce=peeked.nonce,
            at=now,
            control_plane=peeked.control_plane,
        )
        error = _refusal(self._interceptors[type_url], dialect.state_of_the_world(response))
        self._delivery_status.response_answered(
            type_url=type_url, nonce=peeked.nonce, error=error, at=now
        )
        if error is not None:
            self.refusals += 1
            log.warning(
                "the agent refused a configuration and keeps the last good one",
                extra={"type_url": type_url, "version": peeked.version, "reason": error},
            )
            version = self._delivery_status.version_in_use(type_url)
        else:
            version = peeked.version
        return dialect.write_request(
            type_url=type_url,
            version=version,
            nonce=peeked.nonce,
            error=error,
        )


def _refusal(interceptor: Interceptor, response: bytes) -> str | None:
    """Have the interceptor use a response. Returns why it refused it, None if it did not.

    A response without resources is ACKed without calling the interceptor, which keeps what it has.
    """
    if not resource_bodies(response):
        return None
    try:
        interceptor.apply(response)
    except InterceptorRefused as error:
        return str(error) or "refused"
    except Exception as error:
        log.exception("an interceptor failed", extra={"type_url": interceptor.type_url})
        return f"internal error ({type(error).__name__})"
    return None
