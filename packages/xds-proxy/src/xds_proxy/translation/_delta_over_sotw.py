"""Envoy asks for changes only (delta), and the control plane speaks state of the world.

Each request to the control plane names all that Envoy wants by now, and the version that it
accepted last. A response of a type whose state-of-the-world responses are complete (clusters,
listeners, and any type that Envoy wants all of) is compared with what Envoy has accepted, by hashes
of the resources: Envoy gets what is new, and the names of what is gone. Of other types it gets all
that the control plane sends, as that may be sent again for Envoy to go on, and nothing is known to
be gone.

A response keeps its nonce, so Envoy's answer to it is the answer to the control plane's. Envoy gets
what it has refused again with the next response: accepting that one means all of it. New names wait
for the answers to the responses that Envoy has, since a control plane takes no notice of a request
with the nonce of an earlier one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from xds_proxy.protocol._dialect import DELTA, STATE_OF_THE_WORLD
from xds_proxy.protocol._resources import Resource, resources_of, write_response
from xds_proxy.translation._requests import WILDCARD, DeltaRequest, SotwRequest
from xds_proxy.translation._resource_forms import as_resource, copy_common_fields
from xds_proxy.translation._types import CLUSTER, ENDPOINT, FULL_STATE, NAMED_ONLY

_MAX_UNANSWERED = 1024
_REFUSED = ""
"""The version of a resource that Envoy refused: it may have it or not."""


class _Unanswered(NamedTuple):
    """A response that Envoy got.

    nonce, given: Envoy's, and the control plane's, which may have given none.
    changes: versions by name; None for what is gone.
    """

    nonce: str
    given: str
    version: str
    changes: Mapping[str, str | None]


class _Subscription:
    """One type: the names that Envoy wants, and what it has.

    named: it has named some, so that an empty list of names means none.
    version, nonce: of the newest response that was accepted, and that was answered.
    has: versions of the resources that it has accepted, by name; only of a type that is complete in
        each response.
    unsent: the control plane does not know the names yet.
    asked: names that the control plane was asked for since its last response.
    again: names of resources that Envoy gets although it has them.
    resend: the control plane has to be asked for them.
    """

    __slots__ = (
        "again",
        "answered_before",
        "asked",
        "has",
        "named",
        "names",
        "new",
        "nonce",
        "resend",
        "unanswered",
        "unsent",
        "version",
        "wildcard",
    )

    def __init__(self, request: DeltaRequest) -> None:
        self.names: dict[str, None] = {}
        self.wildcard = not request.subscribe
        self.named = False
        self.version = self.nonce = ""
        self.has: dict[str, str] = {}
        self.unanswered: deque[_Unanswered] = deque(maxlen=_MAX_UNANSWERED)
        self.answered_before = False
        self.unsent = True
        self.new: set[str] = set()
        self.asked: set[str] = set()
        self.again: set[str] = set()
        self.resend = False
        self.rename(request.subscribe, request.unsubscribe)
        if self.is_complete(request.type_url):
            self.has.update(request.versions)

    def is_complete(self, type_url: str) -> bool:
        """Return whether each response has all resources of the type."""
        return type_url in FULL_STATE or self.wildcard

    def rename(self, subscribe: Sequence[str], unsubscribe: Sequence[str]) -> None:
        """Take over the names of a request."""
        for name in unsubscribe:
            if name == WILDCARD:
                self.wildcard = False
            elif name in self.names:
                del self.names[name]
                self.new.discard(name)
                self.asked.discard(name)
                if self.wildcard:
                    # Envoy has dropped it, and is to be sent whether it still exists.
                    self.send_again(name)
        for name in subscribe:
            if name == WILDCARD:
                self.wildcard = True
                continue
            if name in self.names or name in unsubscribe or name in self.has:
                self.send_again(name)
            self.names[name] = None
            self.new.add(name)
            self.named = True
        if unsubscribe and not self.wildcard:
            self.has = {name: version for name, version in self.has.items() if name in self.names}
        self.unsent |= bool(subscribe or unsubscribe)

    def send_again(self, name: str) -> None:
        self.again.add(name)
        self.resend |= self.answered_before

    def written_names(self) -> tuple[str, ...]:
        """Return the names as state of the world writes them."""
        if self.wildcard and self.named:
            return (WILDCARD, *self.names)
        return tuple(self.names)

    def answer(self, request: DeltaRequest) -> bool:
        """Return whether a request answers a response that waits for that, and take note of it."""
        if not request.nonce or all(each.nonce != request.nonce for each in self.unanswered):
            return False
        # Envoy answers in order, so it passes over the earlier ones. What these changed is in this
        # one too.
        while (answered := self.unanswered.popleft()).nonce != request.nonce:
            pass
        self.nonce = answered.given
        if request.error is None:
            self.version = answered.version
        for name, version in answered.changes.items():
            if version is None:
                if request.error is None:
                    self.has.pop(name, None)
            elif self.wildcard or name in self.names:
                self.has[name] = version if request.error is None else _REFUSED
        return True


class DeltaOverSotw:
    """One stream."""

    def __init__(self) -> None:
        self._subscriptions: dict[str, _Subscription] = {}
        self._node: bytes | None = None
        self._owed: dict[str, None] = {}
        """Types of which a response was accepted without Envoy."""
        self._numbers = count(1)

    def request(self, data: bytes) -> Sequence[bytes]:
        request = DeltaRequest.read(data)
        if request.node is not None:
            self._node = request.node
        type_url = request.type_url
        subscription = self._subscriptions.get(type_url)
        if subscription is None:
            if not request.subscribe and type_url in NAMED_ONLY:
                return ()
            subscription = self._subscriptions[type_url] = _Subscription(request)
            return (self._written(type_url, subscription, error=request.error),)
        if request.subscribe or request.unsubscribe:
            subscription.rename(request.subscribe, request.unsubscribe)
        rewarmed = _changes_what_envoy_has(request, subscription)
        written = []
        if subscription.answer(request):
            written.append(self._written(type_url, subscription, error=request.error))
            if type_url == CLUSTER and rewarmed:
                written.extend(self._endpoints_again())
        elif subscription.unsent and not subscription.unanswered:
            written.append(self._written(type_url, subscription))
        elif not request.nonce and not subscription.unsent:
            # Neither an answer nor a change: a report, such as of the workload's health.
            written.append(self._written(type_url, subscription, error=request.error, afresh=True))
        if subscription.resend and not subscription.unanswered:
            written.append(self._written(type_url, subscription, afresh=True))
        return tuple(written)

    def response(self, data: bytes) -> bytes | None:
        peeked = STATE_OF_THE_WORLD.read_response(data)
        type_url = peeked.type_url
        subscription = self._subscriptions.get(type_url)
        if subscription is None:
            return None  # no subscription: an answer would make one
        resources = [as_resource(type_url, each) for each in resources_of(STATE_OF_THE_WORLD, data)]
        if subscription.is_complete(type_url):
            changed, gone = _difference(subscription, resources)
        else:
            changed, gone = resources, []
        subscription.asked.clear()
        subscription.again.clear()
        if not (changed or gone or subscription.unanswered) and subscription.answered_before:
            subscription.version, subscription.nonce = peeked.version, peeked.nonce
            self._owed[type_url] = None
            return None
        subscription.answered_before = True
        nonce = peeked.nonce or f"response-{next(self._numbers)}"
        subscription.unanswered.append(
            _Unanswered(
                nonce,
                peeked.nonce,
                peeked.version,
                _changes(changed, gone) if subscription.is_complete(type_url) else {},
            )
        )
        return write_response(
            DELTA,
            type_url=type_url,
            version=peeked.version,
            nonce=nonce,
            resources=changed,
            removed=gone,
        ) + copy_common_fields(data, source=STATE_OF_THE_WORLD, target=DELTA)

    def take_owed(self) -> Sequence[bytes]:
        owed, self._owed = self._owed, {}
        return tuple(
            self._written(type_url, self._subscriptions[type_url])
            for type_url in owed
            if not self._subscriptions[type_url].unanswered
        )

    def _endpoints_again(self) -> Sequence[bytes]:
        """Ask again for the endpoints of changed clusters, which Envoy has to warm anew.

        In the control plane's dialect an Envoy repeats its request for that; in this one it does
        not.
        """
        subscription = self._subscriptions.get(ENDPOINT)
        if subscription is None or subscription.unanswered or not subscription.names:
            return ()
        return (self._written(ENDPOINT, subscription),)

    def _written(
        self,
        type_url: str,
        subscription: _Subscription,
        *,
        error: bytes | None = None,
        afresh: bool = False,
    ) -> bytes:
        """Return a request with all that Envoy wants of a type.

        afresh: as the first request of a stream, so that all of it is sent again.
        """
        self._owed.pop(type_url, None)
        subscription.unsent = False
        subscription.asked |= subscription.new
        subscription.new.clear()
        if afresh:
            subscription.resend = False
        node, self._node = self._node, None
        return SotwRequest(
            type_url=type_url,
            names=subscription.written_names(),
            version="" if afresh else subscription.version,
            nonce="" if afresh else subscription.nonce,
            node=node,
            error=error,
        ).write()


def _difference(
    subscription: _Subscription, resources: Sequence[Resource]
) -> tuple[list[Resource], list[str]]:
    """Return the resources that Envoy lacks, and the names of those that it has too many.

    What it has not answered yet it may accept or refuse, so that is not relied upon.
    """
    has, again = subscription.has, subscription.again
    on_the_way: dict[str, str | None] = {}
    for each in subscription.unanswered:
        on_the_way.update(each.changes)
    changed = [
        resource
        for resource in resources
        if (
            has.get(resource.name) != resource.version
            or on_the_way.get(resource.name, resource.version) != resource.version
            or resource.name in again
            if resource.body
            else resource.name in has  # it only prolongs a time to live
        )
    ]
    if resources and not any(resource.body for resource in resources):
        return changed, []
    there = {resource.name for resource in resources}
    known = dict.fromkeys((*has, *on_the_way, *sorted(subscription.asked | again)))
    return changed, [name for name in known if name not in there]


def _changes(changed: Iterable[Resource], gone: Iterable[str]) -> Mapping[str, str | None]:
    changes: dict[str, str | None] = {each.name: each.version for each in changed if each.body}
    changes.update(dict.fromkeys(gone))
    return changes


def _changes_what_envoy_has(request: DeltaRequest, subscription: _Subscription) -> bool:
    """Return whether a request answers a response that replaced a resource by another."""
    return any(
        version is not None and name in subscription.has
        for unanswered in subscription.unanswered
        if unanswered.nonce == request.nonce
        for name, version in unanswered.changes.items()
    )
