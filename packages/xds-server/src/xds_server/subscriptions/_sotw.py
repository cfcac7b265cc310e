"""The state-of-the-world dialect.

Rules: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol; comments name the section
there that a branch follows. Where the rules leave a choice, the server behaves as Istio's does,
which most clients know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from xds_server.protocol._names import NO_NAMES, absent_names, shared_names
from xds_server.protocol._request import SotwRequest
from xds_server.protocol._resource import Resource
from xds_server.protocol._resources_by_name import NO_RESOURCES, ResourcesByName
from xds_server.protocol._response import Response
from xds_server.protocol._response_encoding import sotw_body, sotw_tail
from xds_server.protocol._type_urls import CLUSTER, ENDPOINT, FULL_STATE, NAMED_ONLY
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


class ClientClusters(NamedTuple):
    """The clusters a client may have; `versions` are those that it may have accepted last."""

    clusters: ResourcesByName = NO_RESOURCES
    versions: frozenset[str] = NO_NAMES


NO_CLUSTERS = ClientClusters()


class SotwState(StreamState[SotwRequest]):
    """One state-of-the-world stream.

    `before` are the clusters that the client had on its last stream.
    """

    __slots__ = ("_from_last_stream", "_unconfirmed", "_versions", "before")

    def _begin(self) -> None:
        self._unconfirmed: AbstractSet[str] = NO_NAMES
        self.before = NO_CLUSTERS
        self._from_last_stream = NO_RESOURCES
        self._versions: tuple[str, ...] = ()

    def client_clusters(self) -> ClientClusters:
        """Return the clusters the client has, for its next stream."""
        clusters = self.subscriptions.get(CLUSTER)
        if clusters is None or not clusters.nonce_sent:
            return self.before
        versions = frozenset({*self._versions, clusters.version_acked})
        if not clusters.nonce_acked:
            versions |= self.before.versions
        return ClientClusters(clusters.client_has, versions)

    def receive(self, request: SotwRequest) -> RequestOutcome:
        subscription = self.subscriptions.get(request.type_url)
        if request.error is not None and subscription is not None:
            # 1. A NACK. "ACK and NACK semantics summary": error_detail alone makes it one; its
            # version may be any that was accepted before.
            subscription.record_nack(request.error, nonce=request.nonce, now=self._now())
            current = request.nonce == subscription.nonce_sent
            if not current and request.type_url == CLUSTER:
                # The client refused the clusters, so it has them from the response after it only.
                doubtful = subscription.client_has.only(frozenset(self._unconfirmed))
                self.warming.on_clusters(doubtful)
            queries = self._resubscribe(subscription, request) if current else ()
            return RequestOutcome(queries=queries, refused=request.error)
        # 2. "How the client specifies what resources to return": with an empty list of names the
        # client is no longer interested in any resources of the type.
        if not request.names and request.type_url in NAMED_ONLY:
            self.subscriptions.pop(request.type_url, None)
            return NO_OUTCOME
        if subscription is None or not request.nonce or not subscription.nonce_sent:
            # 3. The first request of a type, or one like it. "Basic Protocol Overview": a nonce is
            # valid on one stream only. Without one, or with an older stream's, it is not known what
            # the client has.
            return RequestOutcome(queries=self._subscribe(request))
        if request.nonce != subscription.nonce_sent:
            # 4. A request that crossed a newer response on the wire. "Resource updates": with a
            # stale nonce, it gets no response. The answer to the newer one will name what the
            # client wants, but not which resources it dropped in between.
            self._narrow(subscription, subscription.names & request.names)
            return RequestOutcome(stale=True)
        # 5. An ACK, or a change of the names with the newest nonce, which may come with the ACK.
        refused = subscription.nack is not None and subscription.nack.nonce == request.nonce
        if not refused or request.version == subscription.version_sent:
            # Else it only changes names, and its nonce is that of the response that it refused.
            subscription.record_ack(now=self._now())
            if request.type_url == CLUSTER:
                self._unconfirmed = NO_NAMES
            elif request.type_url == ENDPOINT:
                self.warming.on_endpoints_answer()
        queries = self._resubscribe(subscription, request)
        return RequestOutcome(queries=queries) if queries else NO_OUTCOME

    def _subscribe(self, request: SotwRequest) -> tuple[Query, ...]:
        subscription = self.subscriptions.get(request.type_url)
        # "How the client specifies what resources to return": no names mean "*" as long as none
        # were ever given on this stream, and "nothing" after that.
        everything = not request.names and (subscription is None or subscription.implicit_wildcard)
        if subscription is None:
            subscription = Subscription(type_url=request.type_url)
            self.subscriptions[request.type_url] = subscription
            # A client that has nothing, as a new Envoy of the same node, names no version.
            known = request.version and request.version in self.before.versions
            if request.type_url == CLUSTER and known:
                self._from_last_stream = self.before.clusters
                self.removals.resumed_at = self._now()
        # The last nonce stays known: if this request gets no response, because none of the names
        # exists, the client goes on with that nonce.
        subscription.names = _without_wildcard(request.names)
        subscription.wildcard = everything or WILDCARD in request.names
        subscription.implicit_wildcard = everything
        subscription.client_has = NO_RESOURCES
        subscription.pending_removals = NO_NAMES
        return (_everything(subscription),) if everything or request.names else ()

    def _resubscribe(self, subscription: Subscription, request: SotwRequest) -> tuple[Query, ...]:
        """Take over the names of an ACK or NACK, and return the queries for new ones."""
        names = _without_wildcard(request.names)
        if request.names:
            wildcard = WILDCARD in request.names
            subscription.implicit_wildcard = False
        else:
            wildcard = subscription.implicit_wildcard
        if names is subscription.names and wildcard == subscription.wildcard:
            return ()
        added = names - subscription.names
        if wildcard and not subscription.wildcard:
            added |= {WILDCARD}
        subscription.wildcard = wildcard
        # "Unsubscribing From Resources": a request has the full list, so a name that it lacks is
        # unsubscribed.
        self._narrow(subscription, names)
        if not added:
            return ()
        # "How the client specifies what resources to return": newly requested resources are sent
        # even if they went out before. "Grouping Resources into Responses": of clusters and
        # listeners each response has all.
        everything = _everything(subscription)
        if wildcard or subscription.type_url in FULL_STATE:
            return (everything,)
        return (
            Query(
                type_url=subscription.type_url,
                watch=Watch(type_url=subscription.type_url, names=added),
                requested=True,
                force=True,
            ),
        )

    def _narrow(self, subscription: Subscription, names: frozenset[str]) -> None:
        """Take note that the client wants these names, and has dropped all others."""
        subscription.names = names
        if not subscription.wildcard:
            covers = subscription.watch.covers
            subscription.forget([name for name in subscription.client_has if not covers(name)])

    def _respond(self, query: Query, generated: Generated) -> Response | None:
        subscription = self.subscriptions.get(query.type_url)
        if subscription is None:
            return None
        resources: Mapping[str, Resource] | None
        if subscription.wildcard or query.type_url in FULL_STATE:
            resources = self._full_state(subscription, query, generated)
        else:
            resources = self._part(subscription, query, generated)
        if resources is None:
            return None
        return self._response(subscription, resources, generated)

    def _full_state(
        self, subscription: Subscription, query: Query, generated: Generated
    ) -> ResourcesByName | None:
        """Return all resources, if any is new or gone: a client removes those a response lacks.

        "Deleting Resources": so it is for clusters and listeners. A client with a wildcard of
        another type gets all likewise.
        """
        client_has = subscription.client_has
        state = generated.wanted_by(subscription.watch)
        if generated.partial and not generated.complete:
            gone = generated.removed | subscription.pending_removals
            state = client_has.with_changes(state, absent_names(gone, state))
        if self._from_last_stream and query.type_url == CLUSTER:
            client_has = subscription.client_has = self._still_used_from_last_stream(
                subscription.watch, state
            )
        new, pending_removals = client_has.difference(state, complete=True)
        unused = self._without_endpoints(subscription, pending_removals)
        self._on_response(query.type_url, new)
        subscription.answer = NO_RESOURCES
        if query.type_url == CLUSTER and (staying := pending_removals - unused):
            # Routes still refer to these clusters: they stay until the routes are replaced.
            self.removals.set_pending(subscription, staying)
            subscription.answer = state
            subscription.client_has = client_has.with_changes(new, unused)
            return subscription.client_has if new or unused or query.requested else None
        subscription.pending_removals = NO_NAMES
        subscription.client_has = state
        return state if new or pending_removals or query.requested else None

    def _still_used_from_last_stream(
        self, watch: Watch, state: Mapping[str, Resource]
    ) -> ResourcesByName:
        """Return the clusters that the client has from its last stream and that are gone since."""
        brought, self._from_last_stream = self._from_last_stream, NO_RESOURCES
        gone = {n: r for n, r in brought.items() if n not in state and watch.covers(n)}
        return ResourcesByName(gone) if gone else NO_RESOURCES

    def _await_unconfirmed(
        self, subscription: Subscription, resources: Mapping[str, Resource]
    ) -> None:
        """Await endpoints anew for clusters of a refused response, as they warm with this one."""
        if subscription.nack is not None:
            doubtful = {name: resources[name] for name in self._unconfirmed & resources.keys()}
            self.warming.on_clusters(doubtful)

    def _part(
        self, subscription: Subscription, query: Query, generated: Generated
    ) -> Mapping[str, Resource] | None:
        """Return the resources that were asked for or are new.

        "Knowing When a Requested Resource Does Not Exist": this dialect cannot say which do not;
        clients wait for a timeout.
        """
        state = generated.wanted_by(query.watch)
        new, gone = subscription.client_has.difference(state, complete=generated.complete)
        if generated.complete:
            subscription.forget(filter(query.watch.covers, gone))
        elif generated.removed:
            subscription.forget(absent_names(generated.removed, state))
        sent = self._to_send(query, state, new)
        if not sent:
            return None
        self._on_response(query.type_url, sent)
        subscription.client_has = subscription.client_has.with_changes(sent, NO_NAMES)
        return sent

    def _removal_response(self, subscription: Subscription, names: frozenset[str]) -> Response:
        self._forget_removed(subscription, names)
        return self._response(subscription, subscription.client_has, None)

    def _heartbeat(self, subscription: Subscription, resources: Mapping[str, Resource]) -> Response:
        # With their bodies: at a second one without, Envoy (1.40) crashed on this dialect.
        whole = subscription.wildcard or subscription.type_url in FULL_STATE
        return self._response(subscription, subscription.client_has if whole else resources, None)

    def _response(
        self,
        subscription: Subscription,
        resources: Mapping[str, Resource],
        generated: Generated | None,
    ) -> Response:
        if subscription.type_url == CLUSTER:
            self._await_unconfirmed(subscription, resources)
            names, before = resources.keys(), self._unconfirmed
            self._unconfirmed = names if before <= names else before | names
        version = generated.version if generated is not None else None
        version = self._version() if version is None else version
        body = (
            generated.body_of(resources, sotw_body)
            if generated is not None
            else _body_without_generated(resources)
        )
        if subscription.type_url == CLUSTER:
            self._versions = (*self._versions[-3:], version)
        nonce = self._next_nonce()
        subscription.record_response(nonce=nonce, version=version, now=self._now())
        tail = sotw_tail(
            type_url=subscription.type_url,
            version=version,
            nonce=nonce,
            identifier=self.identifier,
        )
        return Response(
            type_url=subscription.type_url,
            nonce=nonce,
            version=version,
            body=body,
            tail=tail,
            resources=resources,
        )

    def _body_once(self, resources: Sequence[Resource]) -> bytes:
        return sotw_body(resources)

    def _tail_once(self, *, type_url: str, version: str, nonce: str) -> bytes:
        identifier = self.identifier
        return sotw_tail(type_url=type_url, version=version, nonce=nonce, identifier=identifier)


def _body_without_generated(resources: Mapping[str, Resource]) -> bytes:
    """Return the bytes of what a client has left, or would forget: one copy for all streams."""
    if not isinstance(resources, ResourcesByName):
        return sotw_body(resources.values())
    if resources.sotw_body is None:
        resources.sotw_body = sotw_body(resources.values())
    return resources.sotw_body


def _without_wildcard(names: frozenset[str]) -> frozenset[str]:
    return shared_names(names - {WILDCARD}) if WILDCARD in names else names


def _everything(subscription: Subscription) -> Query:
    return Query(
        type_url=subscription.type_url,
        watch=subscription.watch,
        requested=True,
        force=True,
        even_if_empty=True,
    )
