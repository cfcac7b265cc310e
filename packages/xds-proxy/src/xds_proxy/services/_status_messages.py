"""The messages of the client status discovery service (CSDS), as far as the relay has to say.

Field numbers: envoy/service/status/v3/csds.proto, envoy/admin/v3/config_dump_shared.proto,
envoy/type/matcher/v3/{node,string}.proto, google/protobuf/timestamp.proto.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from mesh_protowire import WireError, bytes_field, number_of, scan, string_field, text, varint_field
from xds_proxy.protocol._shown import NAME, shorten
from xds_proxy.session._held import Held
from xds_proxy.status._acks_and_nacks import RefusedResource, TypeStatus

_NODE_MATCHERS, _NODE_ID_MATCHER, _METADATA_MATCHERS = 1, 1, 2
_EXACT, _PREFIX, _SUFFIX, _IGNORE_CASE, _CONTAINS = 1, 2, 3, 6, 7
_MATCHERS = frozenset({_EXACT, _PREFIX, _SUFFIX, _CONTAINS})
_NODE_ID = 1

_CONFIG = 1
_CLIENT_NODE, _CLIENT_RESOURCES, _CLIENT_SCOPE = 1, 3, 4
_TYPE_URL, _NAME, _VERSION, _LAST_UPDATED = 1, 2, 3, 5
_CONFIG_STATUS, _CLIENT_STATUS, _ERROR_STATE = 6, 7, 8
_ATTEMPT, _DETAILS, _ERROR_VERSION = 2, 3, 4
_SECONDS, _NANOS = 1, 2

_SYNCED, _NOT_SENT, _STALE, _ERROR = 1, 2, 3, 4
_REQUESTED, _ACKED, _NACKED = 1, 3, 4


class Client(Protocol):
    """An Envoy, and what it has.

    node: its serialised `core.v3.Node`. process: its process id, None if it is unknown.
    resources: by type URL and name. types: the delivery status by type URL.
    requested: the names that it asked for, by type URL.
    """

    @property
    def node(self) -> bytes: ...
    @property
    def process(self) -> int | None: ...
    @property
    def resources(self) -> Mapping[str, Mapping[str, Held]]: ...
    @property
    def types(self) -> Mapping[str, TypeStatus]: ...
    @property
    def requested(self) -> Mapping[str, frozenset[str]]: ...


class UnknownMatcher(Exception):
    """A request selects clients in a way that is not supported; the text says which."""


class _NodeIdMatcher(NamedTuple):
    kind: int
    value: str
    ignores_case: bool

    def matches(self, node_id: str) -> bool:
        value = self.value
        if self.ignores_case:
            value, node_id = value.lower(), node_id.lower()
        match self.kind:
            case 1:
                return node_id == value
            case 2:
                return node_id.startswith(value)
            case 3:
                return node_id.endswith(value)
            case _:
                return value in node_id


def read_request(data: bytes) -> Callable[[Client], bool]:
    """Return which clients a `ClientStatusRequest` asks about: any of its matchers matches.

    Raises:
        WireError: it is no such request.
        UnknownMatcher: it matches by metadata, or by a regular expression.
    """
    matchers = []
    for start, end in scan(data, frozenset({_NODE_MATCHERS})).get(_NODE_MATCHERS, ()):
        found = scan(data, frozenset({_NODE_ID_MATCHER, _METADATA_MATCHERS}), start, end)
        if _METADATA_MATCHERS in found:
            raise UnknownMatcher("clients are selected by their node's id, not by its metadata")
        if _NODE_ID_MATCHER in found:
            matchers.append(_read_matcher(data[slice(*found[_NODE_ID_MATCHER][-1])]))

    def asked(client: Client) -> bool:
        return not matchers or any(each.matches(node_id(client.node)) for each in matchers)

    return asked


def node_id(node: bytes) -> str:
    """Return the id of a serialised node; empty if it has none that can be read."""
    try:
        return text(node, scan(node, frozenset({_NODE_ID})).get(_NODE_ID))
    except WireError:
        return ""


def write_response(clients: Sequence[Client]) -> bytes:
    """Return a `ClientStatusResponse`; it has names, versions and states, but no contents."""
    return b"".join(bytes_field(_CONFIG, _write_client(client)) for client in clients)


def _read_matcher(data: bytes) -> _NodeIdMatcher:
    found = scan(data, _MATCHERS)
    for kind in _MATCHERS:
        if kind in found:
            ignores_case = number_of(data, _IGNORE_CASE) != 0
            return _NodeIdMatcher(kind, text(data, found[kind]), ignores_case)
    raise UnknownMatcher(
        "a node's id is matched by exact, prefix, suffix or contains, not by another matcher"
    )


def _write_client(client: Client) -> bytes:
    parts = [bytes_field(_CLIENT_NODE, client.node)]
    parts += (bytes_field(_CLIENT_RESOURCES, entry) for entry in _entries(client))
    if client.process is not None:
        parts.append(string_field(_CLIENT_SCOPE, f"process {client.process}"))
    return b"".join(parts)


def _entries(client: Client) -> Iterator[bytes]:
    """Yield a `GenericXdsConfig` for each resource that Envoy has, was refused by it, or awaits."""
    type_urls = dict.fromkeys((*client.requested, *client.resources, *client.types))
    for type_url in type_urls:
        begin = string_field(_TYPE_URL, type_url)
        held = client.resources.get(type_url, {})
        status = client.types.get(type_url)
        refused = {each.name: each for each in status.refused} if status is not None else {}
        is_current = status is None or status.acked or status.nack is not None
        good = _states(_SYNCED if is_current else _STALE, _ACKED)
        updated: dict[float, bytes] = {}
        had: dict[str, Held] = {}
        for full_name, each in held.items():
            name = shorten(full_name, NAME)
            if name in refused:
                had[name] = each
                continue
            if each.at not in updated:
                updated[each.at] = bytes_field(_LAST_UPDATED, _timestamp(each.at)) + good
            yield b"".join(
                (
                    begin,
                    string_field(_NAME, name),
                    string_field(_VERSION, shorten(each.version, NAME)),
                    updated[each.at],
                )
            )
        for name, refusal in refused.items():
            yield begin + _write_refused(name, had.get(name), refusal)
        awaited = _states(_NOT_SENT, _REQUESTED)
        for full_name in sorted(client.requested.get(type_url, ())):
            name = shorten(full_name, NAME)
            if full_name not in held and name not in refused and name not in ("", "*"):
                yield begin + string_field(_NAME, name) + awaited


def _write_refused(name: str, held: Held | None, refusal: RefusedResource) -> bytes:
    """A resource whose newest version was refused; the version is the one that Envoy has."""
    failure = (
        bytes_field(_ATTEMPT, _timestamp(refusal.since.timestamp()))
        + string_field(_DETAILS, refusal.reason)
        + string_field(_ERROR_VERSION, refusal.version)
    )
    parts = [string_field(_NAME, name)]
    if held is not None:
        parts.append(string_field(_VERSION, shorten(held.version, NAME)))
        parts.append(bytes_field(_LAST_UPDATED, _timestamp(held.at)))
    return b"".join((*parts, _states(_ERROR, _NACKED), bytes_field(_ERROR_STATE, failure)))


def _states(config_status: int, client_status: int) -> bytes:
    return varint_field(_CONFIG_STATUS, config_status) + varint_field(_CLIENT_STATUS, client_status)


def _timestamp(at: float) -> bytes:
    seconds = int(at)
    nanos = round((at - seconds) * 1e9) % 1_000_000_000
    return varint_field(_SECONDS, seconds) + varint_field(_NANOS, nanos)
