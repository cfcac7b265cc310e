"""The client side of both dialects by the rules of the protocol, without a network.

A model keeps what it was sent, as Envoy does, and refuses resources that hold `BAD`; of a response
with some of these it uses the others, or none if a test says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from envoy.service.discovery.v3 import discovery_pb2

BAD = b"a resource that Envoy refuses"

CLUSTER = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
LISTENER = "type.googleapis.com/envoy.config.listener.v3.Listener"
ENDPOINT = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
ROUTE = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
SCOPED_ROUTE = "type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration"
COMPLETE = frozenset({CLUSTER, LISTENER})
WILDCARD = "*"

Send = Callable[[bytes], None]


class ModelEnvoy(Protocol):
    """A client of either dialect. have: the resources that it uses, by type and name."""

    have: dict[str, dict[str, bytes]]

    def subscribe(self, type_url: str, *names: str) -> None: ...

    def unsubscribe(self, type_url: str, *names: str) -> None: ...

    def response(self, data: bytes) -> None: ...

    def reconnect(self, send: Send) -> None: ...


class SotwEnvoy:
    """Asks for the state of the world."""

    def __init__(self, send: Send, *, all_or_nothing: bool = False) -> None:
        self.have: dict[str, dict[str, bytes]] = {}
        self._send = send
        self._all_or_nothing = all_or_nothing
        self._names: dict[str, dict[str, None]] = {}
        self._all: set[str] = set()
        """Types of which no name was ever given, so that an empty list means all."""
        self._versions: dict[str, str] = {}
        self._nonces: dict[str, str] = {}

    def subscribe(self, type_url: str, *names: str) -> None:
        known = self._names.get(type_url)
        if known is None:
            self._names[type_url] = dict.fromkeys(names)
            if not names:
                self._all.add(type_url)
        else:
            if type_url in self._all:
                self._all.discard(type_url)
                known[WILDCARD] = None
            known.update(dict.fromkeys(names or (WILDCARD,)))
        self._request(type_url)

    def unsubscribe(self, type_url: str, *names: str) -> None:
        wanted = self._names[type_url]
        for name in names:
            wanted.pop(name, None)
        have = self.have.get(type_url, {})
        self.have[type_url] = {n: body for n, body in have.items() if self._covers(type_url, n)}
        self._request(type_url)

    def response(self, data: bytes) -> None:
        message = discovery_pb2.DiscoveryResponse.FromString(data)
        type_url = message.type_url
        sent = {}
        for resource in message.resources:
            assert resource.type_url == type_url
            name = discovery_pb2.ResourceName.FromString(resource.value).name
            if self._covers(type_url, name):
                sent[name] = resource.value
        refused = {name for name, body in sent.items() if BAD in body}
        before = self.have.get(type_url, {})
        if not refused or not self._all_or_nothing:
            everything = type_url in COMPLETE or self._wants_all(type_url)
            now = {} if everything else dict(before)
            for name, body in sent.items():
                if name not in refused:
                    now[name] = body
                elif name in before:
                    now[name] = before[name]
            self.have[type_url] = now
        self._nonces[type_url] = message.nonce
        if not refused:
            self._versions[type_url] = message.version_info
        self._request(type_url, f"refused: {sorted(refused)}" if refused else None)

    def reconnect(self, send: Send) -> None:
        self._send = send
        self._nonces.clear()
        for type_url in self._names:
            self._request(type_url)

    def _wants_all(self, type_url: str) -> bool:
        return type_url in self._all or WILDCARD in self._names.get(type_url, ())

    def _covers(self, type_url: str, name: str) -> bool:
        return self._wants_all(type_url) or name in self._names.get(type_url, ())

    def _request(self, type_url: str, error: str | None = None) -> None:
        request = discovery_pb2.DiscoveryRequest(
            type_url=type_url,
            resource_names=tuple(self._names[type_url]),
            version_info=self._versions.get(type_url, ""),
            response_nonce=self._nonces.get(type_url, ""),
        )
        request.node.id = "model"
        if error is not None:
            request.error_detail.message = error
        self._send(request.SerializeToString())


class DeltaEnvoy:
    """Asks for changes only."""

    def __init__(self, send: Send, *, all_or_nothing: bool = False) -> None:
        self.have: dict[str, dict[str, bytes]] = {}
        self._send = send
        self._all_or_nothing = all_or_nothing
        self._names: dict[str, dict[str, None]] = {}
        self._versions: dict[str, dict[str, str]] = {}

    def subscribe(self, type_url: str, *names: str) -> None:
        known = self._names.get(type_url)
        if known is None:
            self._names[type_url] = dict.fromkeys(names or (WILDCARD,))
        else:
            names = names or (WILDCARD,)
            known.update(dict.fromkeys(names))
        self._request(type_url, subscribe=names)

    def unsubscribe(self, type_url: str, *names: str) -> None:
        wanted = self._names[type_url]
        for name in names:
            wanted.pop(name, None)
        # What the wildcard covers is dropped as well, until it is sent again.
        have = self.have.get(type_url, {})
        self.have[type_url] = {
            name: body
            for name, body in have.items()
            if name not in names and self._covers(type_url, name)
        }
        self._request(type_url, unsubscribe=names)

    def response(self, data: bytes) -> None:
        message = discovery_pb2.DeltaDiscoveryResponse.FromString(data)
        type_url = message.type_url
        sent = {each.name: each for each in message.resources if self._covers(type_url, each.name)}
        for name, each in sent.items():
            assert each.resource.type_url == type_url
            assert each.version
            assert discovery_pb2.ResourceName.FromString(each.resource.value).name == name
        refused = {name for name, each in sent.items() if BAD in each.resource.value}
        if not refused or not self._all_or_nothing:
            have = self.have.setdefault(type_url, {})
            versions = self._versions.setdefault(type_url, {})
            for name, each in sent.items():
                if name not in refused:
                    have[name], versions[name] = each.resource.value, each.version
            for name in message.removed_resources:
                assert name not in sent
                have.pop(name, None)
                versions.pop(name, None)
        self._request(
            type_url,
            nonce=message.nonce,
            error=f"refused: {sorted(refused)}" if refused else None,
        )

    def reconnect(self, send: Send) -> None:
        self._send = send
        for type_url, names in self._names.items():
            versions = self._versions.get(type_url, {})
            have = self.have.get(type_url, {})
            self._request(
                type_url,
                subscribe=tuple(names),
                versions={name: versions[name] for name in have},
            )

    def _covers(self, type_url: str, name: str) -> bool:
        wanted = self._names.get(type_url, {})
        return WILDCARD in wanted or name in wanted

    def _request(
        self,
        type_url: str,
        *,
        subscribe: tuple[str, ...] = (),
        unsubscribe: tuple[str, ...] = (),
        versions: dict[str, str] | None = None,
        nonce: str = "",
        error: str | None = None,
    ) -> None:
        request = discovery_pb2.DeltaDiscoveryRequest(
            type_url=type_url,
            resource_names_subscribe=subscribe,
            resource_names_unsubscribe=unsubscribe,
            initial_resource_versions=versions or {},
            response_nonce=nonce,
        )
        request.node.id = "model"
        if error is not None:
            request.error_detail.message = error
        self._send(request.SerializeToString())
