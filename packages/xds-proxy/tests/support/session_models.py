"""Envoy and control planes as models, which speak real messages; for tests of a session.

Each control plane numbers its nonces from 1 on every stream, and fails on a nonce that it has not
sent there.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf import any_pb2

CLUSTER = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
ENDPOINT = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
TYPES = (CLUSTER, ENDPOINT)
NODE = "sidecar~10.0.0.1~web.default~default.svc.cluster.local"


@dataclass
class Configuration:
    """What the control planes have: a number by type and name. Odd numbers are refused.

    The number is the version too, which so may come back, as that of a hash of the content does.
    """

    resources: dict[str, dict[str, int]] = field(
        default_factory=lambda: {type_url: {} for type_url in TYPES}
    )
    version: int = 0

    def put(self, type_url: str, name: str, content: int, *, bad: bool) -> None:
        self.version += 1
        self.resources[type_url][name] = content * 2 + bad

    def remove(self, type_url: str, name: str) -> None:
        self.version += 1
        self.resources[type_url].pop(name, None)


def is_bad(number: int) -> bool:
    return number % 2 == 1


def body(type_url: str, name: str) -> any_pb2.Any:
    packed = any_pb2.Any()
    if type_url == CLUSTER:
        packed.Pack(cluster_pb2.Cluster(name=name))
    else:
        packed.Pack(endpoint_pb2.ClusterLoadAssignment(cluster_name=name))
    return packed


class SotwPlane:
    """One stream of a control plane, state of the world."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._names: dict[str, frozenset[str]] = {}
        self._nonces = 0
        self._sent: dict[str, dict[str, int]] = {}
        self._newest: dict[str, str] = {}
        self.requests = 0
        self.resources_sent = 0

    def handle(self, raw: bytes) -> list[bytes]:
        request = discovery_pb2.DiscoveryRequest.FromString(raw)
        type_url, nonce = request.type_url, request.response_nonce
        self.requests += 1
        if self.requests == 1:
            assert request.node.id == NODE
        assert not nonce or nonce in self._sent.get(type_url, {}), f"nonce {nonce} is foreign"
        if nonce and nonce != self._newest.get(type_url):
            return []  # stale
        before = self._names.get(type_url)
        self._names[type_url] = frozenset(request.resource_names)
        if before is None or not nonce or before != self._names[type_url]:
            return [self._response(type_url)]
        return []

    def push(self, type_url: str) -> list[bytes]:
        return [self._response(type_url)] if type_url in self._names else []

    def _response(self, type_url: str) -> bytes:
        self._nonces += 1
        nonce = str(self._nonces)
        self._sent.setdefault(type_url, {})[nonce] = self._configuration.version
        self._newest[type_url] = nonce
        chosen = self._names[type_url]
        message = discovery_pb2.DiscoveryResponse(
            type_url=type_url, nonce=nonce, version_info=str(self._configuration.version)
        )
        for name, number in self._configuration.resources[type_url].items():
            if not chosen or name in chosen:
                resource = message.resources.add()
                resource.CopyFrom(body(type_url, name))
                message.control_plane.identifier += f"{name}={number};"
                self.resources_sent += 1
        return message.SerializeToString()


class DeltaPlane:
    """One stream of a control plane, delta."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._names: dict[str, set[str]] = {}
        self._known: dict[str, dict[str, str]] = {}
        self._nonces = 0
        self._sent: dict[str, set[str]] = {}
        self.requests = 0
        self.resources_sent = 0

    def handle(self, raw: bytes) -> list[bytes]:
        request = discovery_pb2.DeltaDiscoveryRequest.FromString(raw)
        type_url, nonce = request.type_url, request.response_nonce
        self.requests += 1
        if self.requests == 1:
            assert request.node.id == NODE
        assert not nonce or nonce in self._sent.get(type_url, ()), f"nonce {nonce} is foreign"
        first = type_url not in self._names
        names = self._names.setdefault(type_url, set())
        known = self._known.setdefault(type_url, {})
        if first:
            known.update(request.initial_resource_versions)
            if not request.resource_names_subscribe:
                names.add("*")
        assert first or not request.initial_resource_versions
        names |= set(request.resource_names_subscribe)
        names -= set(request.resource_names_unsubscribe)
        for name in request.resource_names_unsubscribe:
            known.pop(name, None)
        return self.push(type_url)

    def push(self, type_url: str) -> list[bytes]:
        names = self._names.get(type_url)
        if names is None:
            return []
        known = self._known[type_url]
        message = discovery_pb2.DeltaDiscoveryResponse(type_url=type_url)
        there = self._configuration.resources[type_url]
        for name, number in there.items():
            if ("*" in names or name in names) and known.get(name) != str(number):
                resource = message.resources.add(name=name, version=str(number))
                resource.resource.CopyFrom(body(type_url, name))
                known[name] = str(number)
        for name in [name for name in known if name not in there]:
            message.removed_resources.append(name)
            del known[name]
        if not message.resources and not message.removed_resources:
            return []
        self._nonces += 1
        message.nonce = str(self._nonces)
        message.system_version_info = str(self._configuration.version)
        self.resources_sent += len(message.resources)
        self._sent.setdefault(type_url, set()).add(message.nonce)
        return [message.SerializeToString()]


class SotwEnvoy:
    """The client side, state of the world; it answers responses in order."""

    def __init__(self) -> None:
        self.inbox: deque[bytes] = deque()
        self.has: dict[str, dict[str, int]] = {}
        self.wanted: dict[str, set[str]] = {}
        self._version: dict[str, str] = {}
        self._nonce: dict[str, str] = {}
        self.refused: dict[str, bool] = {}
        """Whether it refused the newest response, and so has what it had before, of all names."""
        self._first = True

    def subscribe(self, type_url: str, names: set[str]) -> list[bytes]:
        if type_url in self.wanted and (type_url == CLUSTER or self.wanted[type_url] == names):
            return []
        self.wanted[type_url] = names if type_url == ENDPOINT else set()
        if type_url in self.has and type_url == ENDPOINT:
            self.has[type_url] = {k: v for k, v in self.has[type_url].items() if k in names}
        return [self._request(type_url)]

    def handle(self) -> list[bytes]:
        message = discovery_pb2.DiscoveryResponse.FromString(self.inbox.popleft())
        type_url = message.type_url
        pairs = [each.split("=") for each in message.control_plane.identifier.split(";") if each]
        found = {name: int(number) for name, number in pairs}
        self._nonce[type_url] = message.nonce
        bad = [name for name, number in found.items() if is_bad(number)]
        self.refused[type_url] = bool(bad)
        if bad:
            return [self._request(type_url, error=f"Error adding/updating cluster(s) {bad[0]}: x")]
        self._version[type_url] = message.version_info
        if type_url == CLUSTER:
            self.has[type_url] = found
        else:
            wanted = {k: v for k, v in found.items() if k in self.wanted[type_url]}
            self.has[type_url] = {**self.has.get(type_url, {}), **wanted}
        return [self._request(type_url)]

    def _request(self, type_url: str, *, error: str | None = None) -> bytes:
        message = discovery_pb2.DiscoveryRequest(
            type_url=type_url,
            resource_names=sorted(self.wanted[type_url]),
            version_info=self._version.get(type_url, ""),
            response_nonce=self._nonce.get(type_url, ""),
        )
        if self._first:
            message.node.id, self._first = NODE, False
        if error is not None:
            message.error_detail.message = error
        return message.SerializeToString()


class DeltaEnvoy:
    """The client side, delta; of the clusters in a response it takes those that are good."""

    def __init__(self) -> None:
        self.inbox: deque[bytes] = deque()
        self.has: dict[str, dict[str, int]] = {}
        self.wanted: dict[str, set[str]] = {}
        self._first = True

    def subscribe(self, type_url: str, names: set[str]) -> list[bytes]:
        message = discovery_pb2.DeltaDiscoveryRequest(type_url=type_url)
        if type_url == CLUSTER:
            if type_url in self.wanted:
                return []
            self.wanted[type_url] = set()
            return [self._finished(message)]
        before = self.wanted.get(type_url, set())
        if before == names:
            return []
        message.resource_names_subscribe.extend(sorted(names - before))
        message.resource_names_unsubscribe.extend(sorted(before - names))
        self.wanted[type_url] = names
        self.has[type_url] = {k: v for k, v in self.has.get(type_url, {}).items() if k in names}
        return [self._finished(message)]

    def handle(self) -> list[bytes]:
        message = discovery_pb2.DeltaDiscoveryResponse.FromString(self.inbox.popleft())
        type_url = message.type_url
        answer = discovery_pb2.DeltaDiscoveryRequest(
            type_url=type_url, response_nonce=message.nonce
        )
        found = {each.name: int(each.version) for each in message.resources}
        bad = sorted(name for name, number in found.items() if is_bad(number))
        if bad and type_url == CLUSTER:
            text = ", ".join(f"{name}: is bad" for name in bad)
            answer.error_detail.message = f"Error adding/updating cluster(s) {text}"
        has = self.has.setdefault(type_url, {})
        for name in message.removed_resources:
            has.pop(name, None)
        for name, number in found.items():
            if (type_url == ENDPOINT and name in self.wanted[type_url]) or (
                type_url == CLUSTER and name not in bad
            ):
                has[name] = number
        return [self._finished(answer)]

    def _finished(self, message: discovery_pb2.DeltaDiscoveryRequest) -> bytes:
        if self._first:
            message.node.id, self._first = NODE, False
        return message.SerializeToString()
