"""The types on one stream of Envoy's that are not Envoy's: the agent's own, and unknown ones.

The agent subscribes to the types of its interceptors, sends reports, and asks an operator's
questions; responses of these types go no further than here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

import msgspec

from mesh_protowire import WireError
from xds_proxy.own_types._debug_requests import DebugRequests
from xds_proxy.own_types._injection import InjectedRequest, InjectedRequests
from xds_proxy.own_types._interception import Interception
from xds_proxy.own_types._waiting_answers import WaitingAnswers
from xds_proxy.protocol._dialect import Dialect, Response
from xds_proxy.session._session import Session
from xds_proxy.status._counters import Counters

log = logging.getLogger("xds_proxy")

LISTENER = "type.googleapis.com/envoy.config.listener.v3.Listener"
"""Reports of the agent's own follow Envoy's first request for this type."""

_FORWARDED = ("envoy.", "istio.workload.Workload")
_MAX_DROPPED_TYPES = 100


class Upstream(Protocol):
    """The stream to the control plane. has_answer: whether a response has come on it."""

    @property
    def has_answer(self) -> bool: ...

    def send(self, request: bytes) -> None: ...

    def end_for_malformed(self, error: WireError) -> None: ...


class SavedOwnTypes(Protocol):
    """Saves what the agent accepted for itself."""

    def on_own_acceptance(
        self, *, node: bytes, dialect: Dialect, type_url: str, response: bytes
    ) -> None: ...


class _Served(msgspec.Struct):
    """One upstream stream, and how far the agent's own types are on it."""

    upstream: Upstream
    answers: WaitingAnswers
    knows_node: bool = False
    """Envoy's first request, which says which node it is, has been sent on it."""
    asked_for_listeners: bool = False
    subscribed: bool = False
    injected: dict[str, InjectedRequest] = msgspec.field(default_factory=dict)
    """The agent's own reports that this stream has had."""
    not_answered: dict[str, tuple[bytes, Response]] = msgspec.field(default_factory=dict)
    """While another stream leads: the newest response of each intercepted type."""


class OwnTypes:
    """The types on one stream of Envoy's whose responses do not reach Envoy.

    leading: says whether the stream leads; only then are requests of the agent's own sent on it.
    saved: is given what an interceptor accepted that can begin with it later; None: nothing is.
    """

    def __init__(
        self,
        session: Session,
        *,
        interception: Interception,
        injection: InjectedRequests,
        debug: DebugRequests,
        saved: SavedOwnTypes | None,
        counters: Counters,
        leading: Callable[[], bool],
    ) -> None:
        self._session = session
        self._interception = interception
        self._injection = injection
        self._debug = debug
        self._saved = saved
        self._counters = counters
        self._leading = leading
        self._served: _Served | None = None
        self._dropped_types: set[str] = set()

    def on_upstream_open(self, upstream: Upstream) -> None:
        """There is a new upstream stream, which has had no request of the agent's own."""
        self._served = _Served(upstream, WaitingAnswers(upstream.send))

    def on_upstream_end(self) -> None:
        """The upstream stream is over."""
        if self._served is not None:
            self._served.answers.drop()
        self._served = None

    def start_leading(self) -> None:
        """The stream leads from now on: send requests, answer what came while another one led."""
        self.send()
        if (served := self._served) is None:
            return
        not_answered, served.not_answered = served.not_answered, {}
        for response, peeked in not_answered.values():
            try:
                self._intercept(served, response, peeked)
            except WireError as error:
                served.upstream.end_for_malformed(error)

    def on_envoy_request(self, type_url: str) -> None:
        """A request of Envoy's has been sent on the upstream stream."""
        if (served := self._served) is None:
            return
        if not served.knows_node or type_url == LISTENER:
            served.knows_node = True
            served.asked_for_listeners |= type_url == LISTENER
            self.send()

    def send(self) -> None:
        """Send the agent's own requests that the upstream stream has not had.

        Subscriptions follow Envoy's first request, as the first one of a stream has to say which
        node asks. Envoy asks for listeners much later, when it has resolved the names of its
        clusters; with a resolver that does not answer, the mesh's names would wait for as long.

        Reports follow the first request for listeners: until it is asked, nothing is served whose
        health could count.
        """
        served = self._served
        if served is None or not self._leading() or not served.knows_node:
            return
        if not served.subscribed:
            served.subscribed = True
            for request in self._interception.subscriptions(self._session.dialect):
                served.upstream.send(request)
        if served.asked_for_listeners:
            for request in self._injection.to_send(self._session.dialect, served.injected):
                served.upstream.send(request)

    def asks(self) -> tuple[Dialect, Callable[[bytes], None]] | None:
        """Return the dialect, and what sends a question; None if there is no answering stream."""
        served = self._served
        if served is None or not served.upstream.has_answer:
            return None
        return self._session.dialect, served.upstream.send

    def concerns(self, type_url: str) -> bool:
        """Return whether responses of a type go here instead of to Envoy."""
        return self._interception.intercepts(type_url) or not is_for_envoy(type_url)

    def take(self, response: bytes, peeked: Response) -> None:
        """Take a response that `concerns` says goes here. Raises WireError."""
        type_url = peeked.type_url
        if self._interception.intercepts(type_url):
            self._counters.responses += 1
            if self._served is not None:
                self._intercept(self._served, response, peeked)
        # An answer to a report needs none; one to a question may come too late.
        elif type_url in self._injection or self._debug.on_response(type_url, response):
            self._counters.responses += 1
        else:
            self._drop(peeked)

    def _intercept(self, served: _Served, response: bytes, peeked: Response) -> None:
        """Give a response to its interceptor and answer it, now or when this stream leads."""
        if not self._leading():
            served.not_answered[peeked.type_url] = response, peeked
            return
        dialect = self._session.dialect
        answer = self._interception.answer(dialect, response, peeked)
        served.answers.add(peeked.type_url, answer.request, wait_s=answer.wait_s)
        if self._saved is not None and self._interception.has_accepted(peeked):
            self._saved.on_own_acceptance(
                node=self._session.node,
                dialect=dialect,
                type_url=peeked.type_url,
                response=response,
            )

    def _drop(self, peeked: Response) -> None:
        self._counters.dropped += 1
        type_url = peeked.type_url
        if type_url not in self._dropped_types and len(self._dropped_types) < _MAX_DROPPED_TYPES:
            self._dropped_types.add(type_url)
            log.error(
                "dropped a response of a type that Envoy does not know",
                extra={"type_url": type_url[:256], "nonce": peeked.nonce[:256]},
            )


def is_for_envoy(type_url: str) -> bool:
    """Return whether responses of this type are relayed to Envoy."""
    return type_url.rpartition("/")[2].startswith(_FORWARDED)
