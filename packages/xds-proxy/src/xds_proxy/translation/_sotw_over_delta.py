"""Envoy asks for the state of the world, and the control plane speaks delta.

A request names all that Envoy wants, so the control plane is sent what that adds and what it takes
away. A response of a type whose state-of-the-world responses are complete (clusters, listeners, and
any type that Envoy wants all of) is put together from all resources there are: the bytes of those
are kept. Of other types only the changed resources are passed on, which this dialect allows; that
one of these is gone can't be said in it.

A response keeps its nonce, so Envoy's answer to it is the answer to the control plane's. What was
refused stays in the next complete response, as it would with a control plane of this dialect.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

from msgspec.structs import replace

from xds_proxy._errors import TranslationError
from xds_proxy.protocol._dialect import DELTA, STATE_OF_THE_WORLD
from xds_proxy.protocol._resources import (
    Resource,
    removed_of,
    resources_of,
    write_response,
)
from xds_proxy.translation._requests import WILDCARD, DeltaRequest, SotwRequest
from xds_proxy.translation._resource_forms import (
    aliases,
    as_any,
    copy_common_fields,
    endpoints_of,
    has_ttl,
)
from xds_proxy.translation._types import CLUSTER, ENDPOINT, FULL_STATE, NAMED_ONLY

_MAX_UNANSWERED = 1024


class _Kept(NamedTuple):
    """A resource, and the `Any` that Envoy gets for it, which mostly is the resource's body."""

    resource: Resource
    any: bytes

    @property
    def size(self) -> int:
        body = self.resource.body
        return len(body) if self.any is body else len(body) + len(self.any)


class _Subscription:
    """One type: the names that Envoy wants, and what there is.

    implicit: it wants all because it has never named any.
    unanswered: the responses that Envoy got and has not answered, the oldest first: the nonce that
        it knows, and the control plane's, which may have given none.
    kept: resources by name; all of a type that is complete in each response, otherwise those that
        have a time to live, as Envoy can't be sent a longer one without them.
    """

    __slots__ = (
        "_named",
        "answered_before",
        "implicit",
        "kept",
        "kept_bytes",
        "names",
        "unanswered",
        "wildcard",
    )

    def __init__(self, names: tuple[str, ...]) -> None:
        self._named = names
        self.implicit = not names
        self.wildcard = not names or WILDCARD in names
        self.names = _without_wildcard(names)
        self.unanswered: deque[tuple[str, str]] = deque(maxlen=_MAX_UNANSWERED)
        self.answered_before = False
        self.kept: dict[str, _Kept] = {}
        self.kept_bytes = 0

    def covers(self, resource: Resource) -> bool:
        return self.covers_name(resource.name) or any(map(self.covers_name, aliases(resource)))

    def covers_name(self, name: str) -> bool:
        # The same xdstp name can be written in several ways, and may be meant by a glob.
        return self.wildcard or name in self.names or name.startswith("xdstp:")

    def keep(self, type_url: str, resource: Resource) -> _Kept:
        self.drop(resource.name)
        kept = _Kept(resource, as_any(type_url, resource))
        self.kept[resource.name] = kept
        self.kept_bytes += kept.size
        return kept

    def prolong(self, type_url: str, kept: Resource, heartbeat: Resource) -> _Kept:
        """Keep a resource for longer: the heartbeat has a name and a time to live, but no body."""
        return self.keep(
            type_url,
            kept._replace(
                version=heartbeat.version or kept.version, more=heartbeat.more or kept.more
            ),
        )

    def drop(self, name: str) -> None:
        if (known := self.kept.pop(name, None)) is not None:
            self.kept_bytes -= known.size

    def replace_names(self, names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Take over the names of a request; return the new ones and those that it dropped."""
        if names == self._named:
            return (), ()
        self._named = names
        if names:
            self.implicit = False
        wildcard = self.implicit or WILDCARD in names
        now = _without_wildcard(names)
        added = [name for name in now if name not in self.names]
        dropped = [name for name in self.names if name not in now]
        if wildcard and not self.wildcard:
            added.append(WILDCARD)
        if self.wildcard and not wildcard:
            dropped.append(WILDCARD)
        self.names, self.wildcard = now, wildcard
        if dropped and not wildcard:
            for name in [name for name in self.kept if not self.covers_name(name)]:
                self.drop(name)
        return tuple(added), tuple(dropped)

    def answer(self, nonce: str) -> str | None:
        """Return the nonce for the control plane if a request's is of a response that waits for it.

        Envoy answers in order, so it passes over the earlier ones.
        """
        if not nonce or all(known != nonce for known, _ in self.unanswered):
            return None
        while True:
            known, given = self.unanswered.popleft()
            if known == nonce:
                return given


class SotwOverDelta:
    """One stream. max_bytes: the largest response that may be put together."""

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._subscriptions: dict[str, _Subscription] = {}
        self._node: bytes | None = None
        self._owed: dict[str, str] = {}
        """By type, the nonce of the newest response that Envoy gets nothing of."""
        self._warming: dict[str, None] = {}
        """Names of endpoints that have to be sent again, because their clusters changed."""
        self._numbers = count(1)

    def request(self, data: bytes) -> Sequence[bytes]:
        request = SotwRequest.read(data)
        if request.node is not None:
            self._node = request.node
        subscription = self._subscriptions.get(request.type_url)
        if subscription is None:
            return self._first(request)
        added, dropped = subscription.replace_names(request.names)
        nonce = subscription.answer(request.nonce)
        answers = nonce is not None
        fresh = not request.nonce
        if fresh and subscription.answered_before and not added and not dropped:
            # As the first request of a stream: the control plane shall send all of it again.
            added = (*subscription.names, *((WILDCARD,) if subscription.wildcard else ()))
        if not (added or dropped or answers or fresh):
            return ()
        if answers:
            self._owed.pop(request.type_url, None)
        return (
            self._written(
                DeltaRequest(
                    type_url=request.type_url,
                    subscribe=added,
                    unsubscribe=dropped,
                    nonce=nonce or "",
                    error=request.error if answers or fresh else None,
                )
            ),
        )

    def response(self, data: bytes) -> bytes | None:
        peeked = DELTA.read_response(data)
        type_url = peeked.type_url
        subscription = self._subscriptions.get(type_url)
        if subscription is None:
            self._owed[type_url] = peeked.nonce  # no request asked for it
            return None
        resources = resources_of(DELTA, data)
        removed = removed_of(DELTA, data)
        if type_url in FULL_STATE or subscription.wildcard:
            bodies = self._complete(type_url, subscription, resources, removed)
        else:
            bodies = self._encode_changed(type_url, subscription, resources, removed)
        if bodies is None:
            self._owed[type_url] = peeked.nonce
            return None
        subscription.answered_before = True
        nonce = peeked.nonce or f"response-{next(self._numbers)}"
        subscription.unanswered.append((nonce, peeked.nonce))
        response = write_response(
            STATE_OF_THE_WORLD,
            type_url=type_url,
            # A control plane of the other dialect need not have one.
            version=peeked.version or nonce,
            nonce=nonce,
            resources=[Resource("", "", body) for body in bodies],
        )
        response += copy_common_fields(data, source=DELTA, target=STATE_OF_THE_WORLD)
        if len(response) > self._max_bytes:
            raise self._too_large(type_url)
        return response

    def take_owed(self) -> Sequence[bytes]:
        owed, self._owed = self._owed, {}
        requests = [
            DeltaRequest(type_url=type_url, nonce=nonce) for type_url, nonce in owed.items()
        ]
        warming, self._warming = self._warming, {}
        endpoints = self._subscriptions.get(ENDPOINT)
        again = tuple(name for name in warming if endpoints and name in endpoints.names)
        if again:
            requests.append(DeltaRequest(type_url=ENDPOINT, subscribe=again))
        return tuple(self._written(request) for request in requests)

    def _first(self, request: SotwRequest) -> Sequence[bytes]:
        if not request.names and request.type_url in NAMED_ONLY:
            return ()
        self._subscriptions[request.type_url] = _Subscription(request.names)
        return (
            self._written(
                DeltaRequest(
                    type_url=request.type_url,
                    subscribe=tuple(dict.fromkeys(request.names)),
                    error=request.error,
                )
            ),
        )

    def _complete(
        self,
        type_url: str,
        subscription: _Subscription,
        resources: Sequence[Resource],
        removed: Sequence[str],
    ) -> list[bytes] | None:
        """Return all resources of a type; None if there is nothing to tell Envoy of."""
        if not resources and not removed and subscription.answered_before:
            return None
        for resource in resources:
            before = subscription.kept.get(resource.name)
            if not resource.body:
                if before is not None:
                    subscription.prolong(type_url, before.resource, resource)
            elif subscription.covers(resource):
                if type_url == CLUSTER and before and before.resource.body != resource.body:
                    self._on_cluster_change(resource)
                subscription.keep(type_url, resource)
        for name in removed:
            subscription.drop(name)
        self._check_size(type_url, subscription)
        return [kept.any for kept in subscription.kept.values()]

    def _encode_changed(
        self,
        type_url: str,
        subscription: _Subscription,
        resources: Sequence[Resource],
        removed: Sequence[str],
    ) -> list[bytes] | None:
        """Return the changed resources of a type; None if there are none."""
        bodies = []
        for resource in resources:
            before = subscription.kept.get(resource.name)
            if not resource.body:
                if before is not None:
                    bodies.append(subscription.prolong(type_url, before.resource, resource).any)
            elif has_ttl(resource):
                bodies.append(subscription.keep(type_url, resource).any)
            else:
                subscription.drop(resource.name)
                bodies.append(as_any(type_url, resource))
        for name in removed:
            subscription.drop(name)
        self._check_size(type_url, subscription)
        return bodies or None

    def _on_cluster_change(self, cluster: Resource) -> None:
        """Ask for the endpoints of a cluster that Envoy has to warm anew, as it does not itself.

        In its own dialect Envoy would repeat its request, which the control plane's has no form of.
        """
        if (name := endpoints_of(cluster.body)) is not None:
            self._warming[name] = None

    def _written(self, request: DeltaRequest) -> bytes:
        """Return the bytes of a request; the first one has Envoy's node."""
        node, self._node = self._node, None
        return (request if node is None else replace(request, node=node)).write()

    def _check_size(self, type_url: str, subscription: _Subscription) -> None:
        if subscription.kept_bytes > self._max_bytes:
            raise self._too_large(type_url)

    def _too_large(self, type_url: str) -> TranslationError:
        return TranslationError(
            f"all resources of {type_url} together are more than the {self._max_bytes} bytes of"
            " a message: Envoy has to ask for changes only (delta)"
        )


def _without_wildcard(names: Sequence[str]) -> dict[str, None]:
    """Return the names in their order, each once."""
    wanted = dict.fromkeys(names)
    wanted.pop(WILDCARD, None)
    return wanted
