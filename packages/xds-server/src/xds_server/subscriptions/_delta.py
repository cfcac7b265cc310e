"""The delta dialect: what changed, and what is gone, rather than all there is.

Rules: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#incremental-xds
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xds_server.protocol._request import DeltaRequest
from xds_server.protocol._resource import Resource
from xds_server.protocol._resources_by_name import NO_NAMES, NOTHING_HELD, Held, one_of_its_kind
from xds_server.protocol._response import Response
from xds_server.protocol._response_encoding import delta_body, delta_heartbeat, delta_tail
from xds_server.protocol._type_urls import CLUSTER, ENDPOINT, FULL_STATE, NAMED_ONLY, WAITED_FOR
from xds_server.protocol._watch import Watch
from xds_server.sources._generated import Generated
from xds_server.subscriptions._stream_state import StreamState
from xds_server.subscriptions._subscription import WILDCARD, Ask, Received, Subscription


class DeltaState(StreamState[DeltaRequest]):
    """One delta stream.

    `in_doubt` are endpoints that the client may have lost with its last stream: between a cluster
    and the endpoints it warms with, which it does not say.
    """

    __slots__ = ("in_doubt",)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.in_doubt: frozenset[str] = NO_NAMES

    def receive(self, request: DeltaRequest) -> Received:
        subscription = self.subscriptions.get(request.type_url)
        if subscription is None:
            return Received(asks=self._subscribe(request))
        stale = False
        if request.error is not None:
            subscription.refused(request.error, nonce=request.nonce, now=self._now())
        elif request.nonce and request.nonce == subscription.nonce_sent:
            subscription.acked(now=self._now())
        elif request.nonce:
            # Responses may overtake ACKs here, so only a nonce of another stream is stale.
            stale = not request.nonce.startswith(self.nonce_prefix)
        # Whatever its nonce: each request is a change of its own, and is not said again.
        if request.type_url == ENDPOINT and subscription.settled:
            self.warming.endpoints_answered()
        asks = self._resubscribe(subscription, request)
        return Received(asks=asks, refused=request.error, stale=stale)

    def _subscribe(self, request: DeltaRequest) -> tuple[Ask, ...]:
        if not request.subscribe and request.type_url in NAMED_ONLY:
            return ()
        subscription = Subscription(
            type_url=request.type_url,
            names=one_of_its_kind(request.subscribe - {WILDCARD}),
            wildcard=not request.subscribe or WILDCARD in request.subscribe,
            legacy_wildcard=not request.subscribe,
            # Of what a client brings from an older stream only the version is known.
            held=Held(
                (name, Resource(name=name, type_url=request.type_url, body=b"", version=version))
                for name, version in request.initial_versions.items()
            )
            if request.initial_versions
            else NOTHING_HELD,
        )
        self.subscriptions[request.type_url] = subscription
        if request.initial_versions:
            self._resumed_at = self._now()
        if request.type_url == ENDPOINT and self.in_doubt:
            self.warming.resume(self.in_doubt & subscription.held.keys())
            self.in_doubt = NO_NAMES
        return (
            Ask(
                type_url=request.type_url,
                watch=subscription.watch,
                asked=True,
                # Envoy's start waits for the first word on a wildcard, even if it is "nothing".
                even_if_empty=subscription.wildcard and not request.initial_versions,
            ),
        )

    def _resubscribe(self, subscription: Subscription, request: DeltaRequest) -> tuple[Ask, ...]:
        if not request.subscribe and not request.unsubscribe:
            return ()
        type_url = subscription.type_url
        dropped = (request.unsubscribe & subscription.names) - request.subscribe
        names = (subscription.names - request.unsubscribe) | request.subscribe
        subscription.names = one_of_its_kind(names - {WILDCARD})
        was_wildcard = subscription.wildcard
        if WILDCARD in request.unsubscribe:
            subscription.wildcard = False
        if WILDCARD in request.subscribe:
            subscription.wildcard = True
        asks: list[Ask] = []
        if subscription.wildcard and (not was_wildcard or WILDCARD in request.subscribe):
            asks.append(
                Ask(type_url=type_url, watch=subscription.watch, asked=True, even_if_empty=True)
            )
        # The client may have dropped what it names again, so it gets it even if it had it. And
        # where the wildcard covers a name it gave up, it has to hear whether that is still there.
        named = request.subscribe - {WILDCARD}
        if subscription.wildcard:
            named |= dropped
        else:
            covers = subscription.watch.covers
            subscription.forget([name for name in subscription.held if not covers(name)])
        if named:
            watch = Watch(type_url=type_url, names=named)
            asks.append(Ask(type_url=type_url, watch=watch, asked=True, force=True))
        return tuple(asks)

    def _respond(self, ask: Ask, generated: Generated) -> Response | None:
        subscription = self.subscriptions.get(ask.type_url)
        if subscription is None:
            return None
        held = subscription.held
        state = generated.wanted_by(ask.watch)
        complete = _complete(ask, generated)
        new, gone = held.difference(state, complete=complete)
        if len(new) != len(state) and (again := self._again(ask, state)) - new.keys():
            new = {name: r for name, r in state.items() if name in new or name in again}
        gone = _gone(ask, generated, state, held, vanished=gone)
        unused = self._never_used(subscription, gone)
        self._note_sent(ask.type_url, new)
        if ask.asked and (not ask.watch.wildcard or ask.type_url not in {CLUSTER, ENDPOINT}):
            removed = gone
            subscription.leaving = subscription.leaving.difference(gone, state) or NO_NAMES
        else:
            removed = unused
            if gone or subscription.leaving:
                still = NO_NAMES if complete else subscription.leaving
                self._leave(subscription, (still | gone).difference(state, unused))
        if removed and ask.type_url == ENDPOINT:
            self.warming.take(removed.__contains__)  # who is told that there are none waits no more
        if (new is state and not held) or (
            complete and not gone and ask.watch is subscription.watch
        ):
            subscription.held = state
        elif new or not removed.isdisjoint(held):
            subscription.held = held.with_changes(new, removed)
        if not new and not removed and not ask.even_if_empty:
            return None
        body = generated.body_of(new, delta_body)
        return self._response(subscription, body, new, removed, version=generated.version)

    def _farewell(self, subscription: Subscription, names: frozenset[str]) -> Response:
        self._drop_leaving(subscription, names)
        return self._response(subscription, b"", NOTHING_HELD, names, version=None)

    def _heartbeat(self, subscription: Subscription, resources: Mapping[str, Resource]) -> Response:
        body = delta_heartbeat(resources.values())
        return self._response(
            subscription, body, resources, NO_NAMES, version=subscription.version_sent
        )

    def _response(
        self,
        subscription: Subscription,
        body: bytes,
        resources: Mapping[str, Resource],
        removed: frozenset[str],
        *,
        version: str | None,
    ) -> Response:
        nonce = self._next_nonce()
        version = self._version() if version is None else version
        subscription.sent(nonce=nonce, version=version, now=self._now())
        tail = delta_tail(
            type_url=subscription.type_url,
            version=version,
            nonce=nonce,
            identifier=self.identifier,
            removed=sorted(removed),
        )
        return Response(
            type_url=subscription.type_url,
            nonce=nonce,
            version=version,
            data=body + tail,
            resources=resources,
            removed=removed,
        )


def _complete(ask: Ask, generated: Generated) -> bool:
    """Whether what was not generated does not exist, as far as the watch goes."""
    return generated.complete or (
        not generated.partial and (ask.asked or ask.watch.wildcard or ask.type_url in FULL_STATE)
    )


def _gone(
    ask: Ask,
    generated: Generated,
    state: Mapping[str, Resource],
    held: Mapping[str, Resource],
    *,
    vanished: frozenset[str],
) -> frozenset[str]:
    """Names the client has, or has just asked for, that do not exist.

    https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#knowing-when-a-requested-resource-does-not-exist
    """
    if not _complete(ask, generated):
        gone = frozenset(generated.removed & held.keys()).difference(state)
    elif vanished and not ask.watch.wildcard:
        gone = frozenset(filter(ask.watch.covers, vanished))
    else:
        gone = vanished
    if not ask.asked:
        return gone
    if generated.removed and not ask.watch.wildcard:
        # Of any type, the generator may say so.
        gone |= frozenset(filter(ask.watch.covers, generated.removed)).difference(state)
    if _complete(ask, generated) and ask.type_url not in WAITED_FOR:
        missing = ask.watch.names.difference(state)
        gone |= {name for name in missing if not name.endswith("/*")} if missing else missing
    return gone
