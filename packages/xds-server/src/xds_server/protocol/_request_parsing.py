"""Reads requests from the bytes that a client sent.

Most requests are an acknowledgement, or have a few names. Those are read field by field: a program
that has few clients, as the one that gives a workload's secrets to its Envoy, then never loads
protobuf's library and Envoy's messages, which take 3 MB and 60 ms. All others are parsed by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from sys import intern

from mesh_protowire import Span, WireError, joined, number_of, scan, text, text_of, varint
from xds_server.protocol._name_runs import NAME_RUNS, NAME_TAG
from xds_server.protocol._names import shared_names
from xds_server.protocol._node import Node, node_from_bytes
from xds_server.protocol._request import (
    NO_VERSIONS,
    ClientError,
    DeltaRequest,
    Parsed,
    SotwRequest,
)

_MOST_FIELDS = 12
"""A request of more fields is read sooner by the library's parser."""

_SHORTEST_RUN = 512
"""Bytes of a request that may have names enough to be looked for among those read before."""

_OF_SOTW = frozenset(range(1, 7))
_AFTER_NAMES = frozenset({4, 5, 6})
_NAME_TAG = bytes((NAME_TAG,))
_OF_DELTA = frozenset(range(1, 8))
_OF_ENTRY = frozenset({1, 2})  # of a map


def parse_sotw(data: bytes, *, with_node: bool = True) -> Parsed:
    """Parse a state-of-the-world request. Raises `BadRequest` for other bytes."""
    if not with_node and len(data) > _SHORTEST_RUN and (parsed := _with_known_names(data)):
        return parsed
    try:
        found = scan(data, _OF_SOTW, at_most=_MOST_FIELDS)
        return Parsed(
            request=SotwRequest(
                type_url=intern(text(data, found.get(4))),
                names=_names(data, found.get(3, ())),
                version=text(data, found.get(1)),
                nonce=text(data, found.get(5)),
                error=_error(data, found.get(6)),
            ),
            node=_node(data, found.get(2)) if with_node else None,
        )
    except WireError:
        from xds_server.protocol._request_messages import parse_sotw_message

        parsed = parse_sotw_message(data, with_node=with_node)
        if isinstance(parsed.request, SotwRequest) and not with_node:
            _keep_names(data, parsed.request.names)
        return parsed


def parse_delta(data: bytes, *, with_node: bool = True) -> Parsed:
    """Parse a delta request. Raises `BadRequest` for other bytes."""
    if not with_node and (acknowledgement := _bare_acknowledgement(data)) is not None:
        return acknowledgement
    try:
        found = scan(data, _OF_DELTA, at_most=_MOST_FIELDS)
        return Parsed(
            request=DeltaRequest(
                type_url=intern(text(data, found.get(2))),
                subscribe=_names(data, found.get(3, ())),
                unsubscribe=_names(data, found.get(4, ())),
                initial_versions=_versions(data, found.get(5, ())),
                nonce=text(data, found.get(6)),
                error=_error(data, found.get(7)),
            ),
            node=_node(data, found.get(1)) if with_node else None,
        )
    except WireError:
        from xds_server.protocol._request_messages import parse_delta_message

        return parse_delta_message(data, with_node=with_node)


def _with_known_names(data: bytes) -> Parsed | None:
    """Return a request with the names of an earlier one; None for others."""
    at = _names_begin(data)
    known = NAME_RUNS.find(data, at) if at is not None else None
    if known is None:
        return None
    end, names = known
    try:
        found = scan(data, _OF_SOTW, end, at_most=_MOST_FIELDS)
        if not found.keys() <= _AFTER_NAMES:
            return None
        return Parsed(
            request=SotwRequest(
                type_url=intern(text(data, found.get(4))),
                names=names,
                version=data[2:at].decode(),
                nonce=text(data, found.get(5)),
                error=_error(data, found.get(6)),
            ),
            node=None,
        )
    except (WireError, UnicodeDecodeError):
        return None  # The parser then refuses it.


def _keep_names(data: bytes, names: frozenset[str]) -> None:
    """Keep the names of a request, if they stand in one place and are all of it."""
    at = _names_begin(data)
    if at is None or len(data) <= _SHORTEST_RUN:
        return
    end, size = at, len(data)
    try:
        while end < size and data[end] == NAME_TAG:
            length, end = varint(data, end + 1)
            end += length
        if end <= size and 3 not in scan(data, _OF_SOTW, end, size):
            NAME_RUNS.keep(data, at, end, names)
    except WireError:
        return  # It has fields that only the library reads.


def _names_begin(data: bytes) -> int | None:
    """Return where the names begin; None if not after a version alone, shorter than 128 bytes.

    Clients write fields by number: the version, the names, and the rest.
    """
    at = 2 + data[1] if data[0] == 0x0A and data[1] < 0x80 else 0
    return at if data[at : at + 1] == _NAME_TAG else None


def _bare_acknowledgement(data: bytes) -> Parsed | None:
    """Return a request that has only a type and a nonce, as most requests do; None for others.

    Reading these two fields by hand (2 and 6, each shorter than 128 bytes) takes a tenth of the
    time.
    """
    end = len(data)
    if end < 4 or data[0] != 0x12:
        return None
    nonce_at = 2 + data[1]
    if data[1] > 0x7F or nonce_at + 2 > end or data[nonce_at] != 0x32:
        return None
    if data[nonce_at + 1] > 0x7F or nonce_at + 2 + data[nonce_at + 1] != end:
        return None
    try:
        type_url = intern(data[2:nonce_at].decode())
        nonce = data[nonce_at + 2 :].decode()
    except UnicodeDecodeError:
        return None  # The parser then refuses it.
    return Parsed(request=DeltaRequest(type_url=type_url, nonce=nonce), node=None)


def _names(data: bytes, found: Iterable[Span]) -> frozenset[str]:
    # Interned: a thousand clients of one shape then share one copy of every name.
    return shared_names(frozenset(intern(text(data, [span])) for span in found))


def _versions(data: bytes, entries: Sequence[Span]) -> Mapping[str, str]:
    if not entries:
        return NO_VERSIONS
    found = [scan(data, _OF_ENTRY, *entry) for entry in entries]
    return {intern(text(data, each.get(1))): text(data, each.get(2)) for each in found}


def _error(data: bytes, found: Iterable[Span] | None) -> ClientError | None:
    if found is None:
        return None
    status = joined(data, found)
    code = number_of(status, 1) & 0xFFFFFFFF  # an int32
    return ClientError(code=code - (code >> 31 << 32), message=text_of(status, 2))


def _node(data: bytes, found: Iterable[Span] | None) -> Node | None:
    return None if found is None else node_from_bytes(joined(data, found))
