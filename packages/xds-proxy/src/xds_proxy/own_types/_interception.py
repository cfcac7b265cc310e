"""The types that the agent itself consumes: the relay subscribes to them and answers for Envoy."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from mesh_lifecycle import Clock, RepeatLog
from xds_proxy._errors import InterceptorRefused
from xds_proxy.own_types._refusals_in_a_row import RefusalsInARow
from xds_proxy.protocol._dialect import (
    STATE_OF_THE_WORLD,
    Dialect,
    Response,
    resource_bodies,
)
from xds_proxy.protocol._resources import Resource, write_response
from xds_proxy.session._held import HeldResources, contents_of
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


@runtime_checkable
class TakesSaved(Protocol):
    """An interceptor that can begin with what it accepted in an earlier run."""

    def apply_saved(self, response: bytes) -> None:
        """Use a response of an earlier run, as no control plane answers. As `Interceptor.apply`."""


class Answer(NamedTuple):
    """An ACK or NACK. wait_s: so long it is not to be sent."""

    request: bytes
    wait_s: float = 0.0


class _Refused(NamedTuple):
    """Why an interceptor refused a response. fault: the exception, if it is none of its own."""

    reason: str
    fault: Exception | None = None


class Interception:
    """All interceptors and the delivery status of their types, for all streams of the relay."""

    def __init__(self, interceptors: Sequence[Interceptor], *, clock: Clock) -> None:
        self._interceptors = {interceptor.type_url: interceptor for interceptor in interceptors}
        self._now = clock.now
        self._held = {type_url: HeldResources() for type_url in self._interceptors}
        self._delivery_status = DeliveryStatus()
        self._in_a_row = {
            type_url: RefusalsInARow(clock.monotonic) for type_url in self._interceptors
        }
        self._refusal_log = RepeatLog(
            log,
            "the agent refused a configuration and keeps the last good one",
            now=clock.monotonic,
        )
        self.refusals = 0

    @property
    def types(self) -> Mapping[str, TypeStatus]:
        """The delivery status of the intercepted types, by type URL."""
        return self._delivery_status.types

    def intercepts(self, type_url: str) -> bool:
        """Return whether responses of this type are for the agent."""
        return type_url in self._interceptors

    def subscriptions(self, dialect: Dialect) -> tuple[bytes, ...]:
        """Return the requests that subscribe to the intercepted types on a new upstream stream.

        They name the versions that the agent has.
        """
        return tuple(
            dialect.write_request(
                type_url=type_url,
                version=self._delivery_status.version_in_use(type_url),
                held=held.versions,
            )
            for type_url, held in self._held.items()
        )

    def types_to_save(self) -> tuple[str, ...]:
        """Return the types whose interceptors can begin with saved resources."""
        every = self._interceptors.items()
        return tuple(name for name, each in every if isinstance(each, TakesSaved))

    def has_accepted(self, peeked: Response) -> bool:
        """Return whether a response was accepted by an interceptor that can begin with it later."""
        known = self._delivery_status.types.get(peeked.type_url)
        takes = isinstance(self._interceptors.get(peeked.type_url), TakesSaved)
        return takes and known is not None and known.acked and known.version == peeked.version

    def apply_saved(self, type_url: str, bodies: tuple[bytes, ...]) -> None:
        """Have an interceptor use saved resources; each one is a serialised Any."""
        interceptor = self._interceptors[type_url]
        if not bodies or not isinstance(interceptor, TakesSaved):
            return
        response = write_response(
            STATE_OF_THE_WORLD,
            type_url=type_url,
            version="",
            nonce="",
            resources=[Resource("", "", body) for body in bodies],
        )
        try:
            interceptor.apply_saved(response)
        except InterceptorRefused as error:
            facts = {"type_url": type_url, "reason": str(error)}
            log.warning("saved resources of the agent's own are not used", extra=facts)
        except Exception:
            log.exception("an interceptor failed", extra={"type_url": type_url})

    def answer(self, dialect: Dialect, response: bytes, peeked: Response) -> Answer:
        """Give a response to its interceptor. Returns the ACK or NACK. Raises WireError."""
        type_url, version, now = peeked.type_url, peeked.version, self._now()
        contents = contents_of(dialect, response, version)
        self._delivery_status.on_response(
            type_url, version, at=now, control_plane=peeked.control_plane
        )
        refused = _refusal(self._interceptors[type_url], dialect.state_of_the_world(response))
        if refused is None:
            self._in_a_row[type_url].on_ack()
            self._refusal_log.ended(type_url)
            self._delivery_status.on_ack(type_url, version, at=now)
            self._delivery_status.on_resource_acceptance(type_url, None)
            self._held[type_url].discard(contents.removed)
            self._held[type_url].add(contents.versions, at=now)
            return Answer(
                dialect.write_request(type_url=type_url, version=version, nonce=peeked.nonce)
            )
        self.refusals += 1
        self._delivery_status.on_nack(type_url, version, refused.reason, at=now)
        self._refusal_log.happened(
            type_url,
            reason=refused.reason,
            facts={"type_url": type_url, "version": version},
            fault=refused.fault,
        )
        nack = dialect.write_request(
            type_url=type_url,
            version=self._delivery_status.version_in_use(type_url),
            nonce=peeked.nonce,
            error=refused.reason,
        )
        return Answer(nack, self._in_a_row[type_url].on_nack())


def _refusal(interceptor: Interceptor, response: bytes) -> _Refused | None:
    """Have the interceptor use a response. Returns why it refused it, None if it did not.

    A response without resources is ACKed without calling the interceptor, which keeps what it has.
    """
    if not resource_bodies(response):
        return None
    try:
        interceptor.apply(response)
    except InterceptorRefused as error:
        return _Refused(str(error) or "refused")
    except Exception as error:  # noqa: BLE001 - it is answered, and logged by the caller
        return _Refused(f"internal error ({type(error).__name__})", error)
    return None
