"""The resources of a discovery response, in both dialects: reading, replacing and writing them.

In state of the world a response's resources are `google.protobuf.Any`s, and a resource's name is
field 1 of the message inside, as in every type that Envoy knows. Delta wraps each one in a
`Resource` with its name and version. An `Any` may hold a `Resource` too, which gives it a time to
live.

Reading is bounded by the message: its work is proportional to the bytes. A large response is read
in a thread by the callers.
Field numbers: envoy/service/discovery/v3/discovery.proto; google/protobuf/any.proto.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mesh_protowire import (
    BYTES,
    Span,
    WireError,
    bytes_field,
    fields,
    joined,
    scan,
    string_field,
    text,
    varint,
    without,
)
from xds_proxy.protocol._dialect import Dialect

_RESOURCES = 2  # the same number in both responses
_REMOVED = 6
_REMOVED_RESOURCE_NAMES = 8
_RESOURCE_NAME_NAME = 1

_ANY_TYPE_URL, _ANY_VALUE = 1, 2
_FIRST_STRING, _SECOND_STRING, _THIRD_STRING = 1 << 3 | 2, 2 << 3 | 2, 3 << 3 | 2
_IN_ANY = frozenset({_ANY_TYPE_URL, _ANY_VALUE})
_BODY_NAME = 1
_WRAPPED_VERSION, _WRAPPED_BODY, _WRAPPED_NAME = 1, 2, 3
_IN_WRAPPED = frozenset({_WRAPPED_VERSION, _WRAPPED_BODY, _WRAPPED_NAME})
_JUST_RESOURCES = frozenset({_RESOURCES})
_JUST_REMOVED = frozenset({_REMOVED, _REMOVED_RESOURCE_NAMES})
_RESOURCES_AND_REMOVED = _JUST_RESOURCES | _JUST_REMOVED
_IN_BODY = frozenset({_BODY_NAME})
_LONGEST_VARINT = 10
_NO_SPAN = (0, 0)
_NO_SPANS = [_NO_SPAN]
_WRAPPER = b"/envoy.service.discovery.v3.Resource"


class Resource(NamedTuple):
    """One resource of a response.

    name: empty if it has none that can be read.
    version: of the resource alone; empty in state of the world, where the response has one.
    body: its serialised `google.protobuf.Any`; empty in delta for one that only prolongs a time to
        live.
    more: in delta the other fields of its `Resource`, such as the time to live, serialised.
    """

    name: str
    version: str
    body: bytes
    more: bytes = b""


def resources_of(dialect: Dialect, response: bytes) -> tuple[Resource, ...]:
    """Return the resources of a response, in its order.

    Raises:
        WireError: the bytes are not a response.
    """
    spans = scan(response, _JUST_RESOURCES).get(_RESOURCES, ())
    if dialect.resources_are_wrapped:
        return tuple(_unwrap(response, span) for span in spans)
    return tuple(
        Resource(_name_in_any(response, span), "", response[span[0] : span[1]]) for span in spans
    )


def names_of(dialect: Dialect, response: bytes) -> list[tuple[str, str]]:
    """Return name and version of each resource of a response, without copying its body.

    Raises:
        WireError: the bytes are not a response.
    """
    if dialect.resources_are_wrapped:
        spans = scan(response, _JUST_RESOURCES).get(_RESOURCES, ())
        return [_name_and_version(response, span) for span in spans]
    return [(name, "") for name in names_of_whole_state(response)]


def names_of_whole_state(response: bytes) -> list[str]:
    """Return the name of each resource of a response in state of the world.

    Raises:
        WireError: the bytes are not a response.
    """
    names = []
    usual = b""
    for start, end in scan(response, _JUST_RESOURCES).get(_RESOURCES, ()):
        # All are of one type, and the bytes before the value's length are the same in each.
        if usual and response.startswith(usual, start, end):
            at = start + len(usual)
        else:
            at = _value_length_at(response, start, end)
            usual = response[start:at]
        name = _first_string(response, at, end) if usual else None
        names.append(_name_in_any(response, (start, end)) if name is None else name)
    return names


def removed_of(dialect: Dialect, response: bytes) -> tuple[str, ...]:
    """Return the names of the resources that a delta response removes; none in state of the world.

    Raises:
        WireError: the bytes are not a response.
    """
    if not dialect.resources_are_wrapped:
        return ()
    return _read_removed(response, scan(response, _JUST_REMOVED))


def names_and_removed_of(response: bytes) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
    """Return `names_of` and `removed_of` of a delta response; reads it once.

    Raises:
        WireError: the bytes are not a response.
    """
    found = scan(response, _RESOURCES_AND_REMOVED)
    names = [_name_and_version(response, span) for span in found.get(_RESOURCES, ())]
    return names, _read_removed(response, found)


def _read_removed(response: bytes, found: Mapping[int, Sequence[Span]]) -> tuple[str, ...]:
    removed = [text(response, [span]) for span in found.get(_REMOVED, ())]
    for start, end in found.get(_REMOVED_RESOURCE_NAMES, ()):
        name = scan(response, frozenset({_RESOURCE_NAME_NAME}), start, end)
        removed.append(text(response, name.get(_RESOURCE_NAME_NAME)))
    return tuple(removed)


def write_response(
    dialect: Dialect,
    *,
    type_url: str,
    version: str,
    nonce: str,
    resources: Sequence[Resource],
    removed: Sequence[str] = (),
) -> bytes:
    """Return a response. removed: names, for delta alone; state of the world leaves them out."""
    parts = [string_field(dialect.response_version, version)]
    parts += (bytes_field(_RESOURCES, _wire_form(dialect, resource)) for resource in resources)
    parts.append(string_field(dialect.response_type_url, type_url))
    parts.append(string_field(dialect.response_nonce, nonce))
    if dialect.resources_are_wrapped:
        # A repeated field has its empty strings too.
        parts += (bytes_field(_REMOVED, name.encode()) for name in removed)
    return b"".join(parts)


def with_bodies(dialect: Dialect, response: bytes, bodies: Sequence[bytes]) -> bytes:
    """Return a response with other bodies in its resources; all else in it stays byte for byte.

    bodies: as many as there are resources, in their order. Returns the same object if each of them
    equals what is there.

    Raises:
        WireError: the bytes are not a response.
        ValueError: there is another number of bodies.
    """
    parts: list[bytes] = []
    copied, new = 0, iter(bodies)
    count = 0
    for found in fields(response):
        if found.number != _RESOURCES or found.kind != BYTES:
            continue
        count += 1
        body = next(new, None)
        if body is None:
            break
        old = response[found.start : found.end]
        replaced = _with_body(old, body) if dialect.resources_are_wrapped else body
        if replaced != old:
            parts.append(response[copied : found.begin])
            parts.append(bytes_field(_RESOURCES, replaced))
            copied = found.end
    if count != len(bodies):
        raise ValueError(f"{len(bodies)} bodies for another number of resources")
    if not copied:
        return response
    parts.append(response[copied:])
    return b"".join(parts)


def wrap(resource: Resource) -> bytes:
    """Return a resource as delta's `Resource`, serialised."""
    parts = [
        string_field(_WRAPPED_VERSION, resource.version),
        bytes_field(_WRAPPED_BODY, resource.body) if resource.body else b"",
        string_field(_WRAPPED_NAME, resource.name),
        resource.more,
    ]
    return b"".join(parts)


def unwrap(data: bytes) -> Resource:
    """Read delta's `Resource`. Raises WireError."""
    return _unwrap(data, (0, len(data)))


def with_time_to_live(body: bytes) -> Resource | None:
    """Return the `Resource` in an `Any`, which gives a time to live; None if there is none in it.

    Raises:
        WireError: it is damaged.
    """
    found = scan(body, _IN_ANY)
    start, end = found.get(_ANY_TYPE_URL, _NO_SPANS)[-1]
    if not body[start:end].endswith(_WRAPPER):
        return None
    return unwrap(joined(body, found.get(_ANY_VALUE, ())))


def only_prolongs(response: bytes) -> bool:
    """Return whether a response in state of the world has nothing but resources without bodies.

    It prolongs their times to live, and says nothing of others. Raises WireError.
    """
    if _WRAPPER not in response:
        return False
    wrapped_ones = [
        with_time_to_live(response[start:end])
        for start, end in scan(response, _JUST_RESOURCES).get(_RESOURCES, ())
    ]
    return all(each is not None and not each.body for each in wrapped_ones)


def name_in(body: bytes) -> str:
    """Return the name in an `Any`; empty if what it holds has none, or is damaged."""
    return _name_in_any(body, (0, len(body)))


def _wire_form(dialect: Dialect, resource: Resource) -> bytes:
    return wrap(resource) if dialect.resources_are_wrapped else resource.body


def _with_body(content: bytes, body: bytes) -> bytes:
    if joined(content, scan(content, _IN_WRAPPED).get(_WRAPPED_BODY, ())) == body:
        return content
    rest = without(content, frozenset({_WRAPPED_BODY}))
    return rest + bytes_field(_WRAPPED_BODY, body)


def _unwrap(data: bytes, span: Span) -> Resource:
    content = data[span[0] : span[1]]
    found = scan(content, _IN_WRAPPED)
    return Resource(
        name=text(content, found.get(_WRAPPED_NAME)),
        version=text(content, found.get(_WRAPPED_VERSION)),
        body=joined(content, found.get(_WRAPPED_BODY, ())),
        more=without(content, _IN_WRAPPED),
    )


def _name_and_version(data: bytes, span: Span) -> tuple[str, str]:
    """Return the name and the version in delta's `Resource`. Raises WireError."""
    start, end = span
    # As every serialiser writes it: a short version or none, the body, and a short name at the end.
    at, version = start, _NO_SPAN
    if end - at > 1 and data[at] == _FIRST_STRING and data[at + 1] < 0x80:
        version = at + 2, at + 2 + data[at + 1]
        at = version[1]
    if end - at > _LONGEST_VARINT + 1 and data[at] == _SECOND_STRING:
        length, at = varint(data, at + 1)
        at += length
        if end - at > 1 and data[at] == _THIRD_STRING and data[at + 1] == end - at - 2 < 0x80:
            try:
                return data[at + 2 : end].decode(), data[version[0] : version[1]].decode()
            except UnicodeDecodeError:
                pass  # the error is raised below
    found = scan(data, _IN_WRAPPED, start, end)
    return text(data, found.get(_WRAPPED_NAME)), text(data, found.get(_WRAPPED_VERSION))


def _value_length_at(data: bytes, start: int, end: int) -> int:
    """Return where the length of an `Any`'s value stands, if that is as every serialiser writes it.

    That is: a short type URL, then the value. Else, and for a `Resource` in the `Any`, `start`.
    """
    if end - start > 4 and data[start] == _FIRST_STRING and data[start + 1] < 0x80:
        at = start + 2 + data[start + 1]
        if at < end and data[at] == _SECOND_STRING and not data[start + 2 : at].endswith(_WRAPPER):
            return at + 1
    return start


def _first_string(data: bytes, at: int, end: int) -> str | None:
    """Return a short string that a message begins with, which is its name; None without one.

    at: where the length of the message stands.
    """
    while at < end and data[at] >= 0x80:
        at += 1
    at += 1
    if at + 1 < end and data[at] == _FIRST_STRING and data[at + 1] < 0x80:
        name = at + 2 + data[at + 1]
        if name <= end:
            try:
                return data[at + 2 : name].decode()
            except UnicodeDecodeError:
                return ""
    return None


def _name_in_any(data: bytes, span: Span) -> str:
    """Return the name in an `Any`; empty if what it holds has none, or is damaged.

    Whether a resource is valid is for Envoy to say.
    """
    start, end = span
    at = _value_length_at(data, start, end)
    if at > start and (name := _first_string(data, at, end)) is not None:
        return name
    found = scan(data, _IN_ANY, *span)
    values = found.get(_ANY_VALUE)
    if not values:
        return ""
    start, end = found.get(_ANY_TYPE_URL, _NO_SPANS)[-1]
    number = _WRAPPED_NAME if data[start:end].endswith(_WRAPPER) else _BODY_NAME
    try:
        wanted = _IN_BODY if number == _BODY_NAME else frozenset({number})
        return text(data, scan(data, wanted, *values[-1]).get(number))
    except WireError:
        return ""
