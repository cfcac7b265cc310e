"""The delta dialect: responses hold changed resources and the names of removed ones.

Rules: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#incremental-xds; comments
name the section there that a branch follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xds_server.protocol._names import NO_NAMES, absent_names, names_after, shared_names
from xds_server.protocol._request import DeltaRequest
from xds_server.protocol._resource import Resource
from xds_server.protocol._resources_by_name import NO_RESOURCES, ResourcesByName
from xds_server.protocol._response import Response
from xds_server.protocol._response_encoding import delta_body, delta_heartbeat, delta_tail
from xds_server.protocol._type_urls import (
    ABSENCE_NOT_SENT,
    CLUSTER,
    ENDPOINT,
    FULL_STATE,
    NAMED_ONLY,
)
from xds_server.protocol._watch import Watch
from xds_server.sources._generated import Generated
from xds_server.subscriptions._stream_state import StreamState
from xds_server.subscriptions._subscription import (
    NO_OUTCOME,
    WILDCARD,
    Query,
    RequestOutcome,
    Subscription,
)


class DeltaState(StreamState[DeltaRequest]):
    """One delta stream.

    `in_doubt` are endpoints that the client may lack although it says that it has them: its last
    stream may have broken between a cluster and the endpoints that warm it.
    """

    __slots__ = ("in_doubt",)

    def _begin(self) -> None:
        self.in_doubt: frozenset[str] = NO_NAMES

    def receive(self, request: DeltaRequest) -> RequestOutcome:
        subscription = self.subscriptions.get(request.type_url)
        # 1. The first request of a type.
        if subscription is None:
            return RequestOutcome(queries=self._subscribe(request))
        # 2. An ACK or a NACK of an earlier response. "Incremental xDS": error_detail is in a NACK
        # alone.
        stale = False
        if request.error is not None:
            subscription.record_nack(request.error, nonce=request.nonce, now=self._now())
        elif request.nonce and request.nonce == subscription.nonce_sent:
            subscription.record_ack(now=self._now())
        elif request.nonce:
            # Responses may overtake ACKs here, so only a nonce of another stream is stale.
            stale = not request.nonce.startswith(self.nonce_prefix)
        # 3. A change of the names, with either or alone. "Incremental xDS": it counts even if the
        # nonce is stale, as the client does not repeat it.
        if request.type_url == ENDPOINT and subscription.is_answered:
            self.warming.on_endpoints_answer()
        queries = self._resubscribe(subscription, request)
        if not queries and not stale and request.error is None:
            return NO_OUTCOME
        return RequestOutcome(queries=queries, refused=request.error, stale=stale)

    def _subscribe(self, request: DeltaRequest) -> tuple[Query, ...]:
        if not request.subscribe and request.type_url in NAMED_ONLY:
            return ()
        subscription = Subscription(
            type_url=request.type_url,
            names=shared_names(request.subscribe - {WILDCARD}),
            # "How the client specifies what resources to return": no name at all, in the first
            # request of a type, counts as a subscription to "*".
            wildcard=not request.subscribe or WILDCARD in request.subscribe,
            implicit_wildcard=not request.subscribe,
            # "Incremental xDS": on reconnect a client may say what it has, by initial versions, so
            # that it does not get it again. Of these resources only the version is known.
            client_has=ResourcesByName(
                (name, Resource(name=name, type_url=request.type_url, body=b"", version=version))
                for name, version in request.initial_versions.items()
            )
            if request.initial_versions
            else NO_RESOURCES,
        )
        self.subscriptions[request.type_url] = subscription
        if request.initial_versions:
            self.removals.resumed_at = self._now()
        if request.type_url == ENDPOINT and self.in_doubt:
            self.warming.resume(self.in_doubt & subscription.client_has.keys())
            self.in_doubt = NO_NAMES
        return (
            Query(
                type_url=request.type_url,
                watch=subscription.watch,
                requested=True,
                # Envoy's start waits for the first response to a wildcard, even an empty one; and a
                # client that comes back with everything learns that it was heard.
                even_if_empty=subscription.wildcard,
            ),
        )

    def _resubscribe(self, subscription: Subscription, request: DeltaRequest) -> tuple[Query, ...]:
        if not request.subscribe and not request.unsubscribe:
            return ()
        type_url = subscription.type_url
        dropped = (request.unsubscribe & subscription.names) - request.subscribe
        subscription.names = names_after(
            subscription.names, request.subscribe - {WILDCARD}, request.unsubscribe
        )
        was_wildcard = subscription.wildcard
        if WILDCARD in request.unsubscribe:
            subscription.wildcard = False
        if WILDCARD in request.subscribe:
            subscription.wildcard = True
        queries: list[Query] = []
        if subscription.wildcard and (not was_wildcard or WILDCARD in request.subscribe):
            queries.append(
                Query(
                    type_url=type_url, watch=subscription.watch, requested=True, even_if_empty=True
                )
            )
        # 1. "Subscribing to Resources": a named resource is sent even if the client should have its
        # newest version, as the client may have forgotten it.
        named = request.subscribe - {WILDCARD}
        if subscription.wildcard:
            # 2. "Unsubscribing from Resources": beside a wildcard, an unsubscribed name is answered
            # with its resource, or as removed if the wildcard does not cover it.
            named |= dropped
        else:
            # 3. "Unsubscribing from Resources": other unsubscriptions need no response.
            watch, has = subscription.watch, subscription.client_has
            some = was_wildcard or any(name.endswith("/*") for name in dropped)
            no_longer = has if some else dropped & has.keys()
            subscription.forget([name for name in no_longer if not watch.covers(name)])
        if named:
            watch = Watch(type_url=type_url, names=named)
            queries.append(Query(type_url=type_url, watch=watch, requested=True, force=True))
        return tuple(queries)

    def _respond(self, query: Query, generated: Generated) -> Response | None:
        subscription = self.subscriptions.get(query.type_url)
        if subscription is None:
            return None
        client_has = subscription.client_has
        state = generated.wanted_by(query.watch)
        complete = _complete(query, generated)
        watch = query.watch
        if complete and watch is not subscription.watch and _is_narrow(watch, client_has):
            new, _ = client_has.difference(state, complete=False)
            gone = frozenset(
                name for name in watch.names if name in client_has and name not in state
            )
        else:
            new, gone = client_has.difference(state, complete=complete)
        sent = self._to_send(query, state, new)
        if gone or query.requested or not complete:
            gone = _gone(query, generated, state, client_has, vanished=gone)
        unused = self._without_endpoints(subscription, gone) if gone else NO_NAMES
        self._on_response(query.type_url, sent)
        if query.requested and (
            not query.watch.wildcard or query.type_url not in {CLUSTER, ENDPOINT}
        ):
            removed = gone
            subscription.pending_removals = absent_names(
                subscription.pending_removals - gone, state
            )
        else:
            removed = unused
            if gone or subscription.pending_removals:
                still = NO_NAMES if complete else subscription.pending_removals
                self.removals.set_pending(
                    subscription, absent_names((still | gone) - unused, state)
                )
        if removed and query.type_url == ENDPOINT:
            self.warming.stop_awaiting(self.warming.awaited & removed)
        whole = complete and query.watch is subscription.watch
        subscription.answer = state if whole and subscription.pending_removals else NO_RESOURCES
        if (new is state and not client_has) or (whole and not gone):
            subscription.client_has = state
        elif sent or any(name in client_has for name in removed):
            subscription.client_has = client_has.with_changes(sent, removed)
        if not sent and not removed and not query.even_if_empty:
            return None
        body = generated.body_of(sent, delta_body)
        return self._response(subscription, body, sent, removed, version=generated.version)

    def _body_once(self, resources: Sequence[Resource]) -> bytes:
        return delta_body(resources)

    def _tail_once(self, *, type_url: str, version: str, nonce: str) -> bytes:
        return delta_tail(
            type_url=type_url,
            version=version,
            nonce=nonce,
            identifier=self.identifier,
            removed=NO_NAMES,
        )

    def _removal_response(self, subscription: Subscription, names: frozenset[str]) -> Response:
        self._forget_removed(subscription, names)
        return self._response(subscription, b"", NO_RESOURCES, names, version=None)

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
        subscription.record_response(nonce=nonce, version=version, now=self._now())
        tail = delta_tail(
            type_url=subscription.type_url,
            version=version,
            nonce=nonce,
            identifier=self.identifier,
            removed=sorted(removed) if removed else (),
        )
        return Response(
            type_url=subscription.type_url,
            nonce=nonce,
            version=version,
            body=body,
            tail=tail,
            resources=resources,
            removed=removed,
        )


def _is_narrow(watch: Watch, client_has: Mapping[str, Resource]) -> bool:
    """Return whether a watch has few names, beside which the client has many resources."""
    return not watch.wildcard and 4 * len(watch.names) < len(client_has) and not watch.prefixes()


def _complete(query: Query, generated: Generated) -> bool:
    """Return whether names of the watch that were not generated do not exist."""
    return generated.complete or (
        not generated.partial
        and (query.requested or query.watch.wildcard or query.type_url in FULL_STATE)
    )


def _gone(
    query: Query,
    generated: Generated,
    state: Mapping[str, Resource],
    client_has: Mapping[str, Resource],
    *,
    vanished: frozenset[str],
) -> frozenset[str]:
    """Return the names that the client has or has just asked for and that do not exist.

    "Knowing When a Requested Resource Does Not Exist": they go into `removed_resources`, so that
    the client need not wait for a timeout.
    """
    if not _complete(query, generated):
        gone = absent_names((name for name in generated.removed if name in client_has), state)
    elif vanished and not query.watch.wildcard:
        gone = frozenset(filter(query.watch.covers, vanished))
    else:
        gone = vanished
    if not query.requested:
        return gone
    if generated.removed and not query.watch.wildcard:
        # The generator may say so of any type.
        gone |= absent_names(filter(query.watch.covers, generated.removed), state)
    if _complete(query, generated) and query.type_url not in ABSENCE_NOT_SENT:
        missing = absent_names(query.watch.names, state)
        gone |= {name for name in missing if not name.endswith("/*")} if missing else missing
    return gone
