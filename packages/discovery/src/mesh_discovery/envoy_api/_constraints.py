"""The constraints that Envoy's API puts on messages: Envoy refuses a resource that breaks one.

They are options of fields (protoc-gen-validate, `validate/validate.proto`), read by reflection.
Configurations in `Any` fields are looked into, as Envoy does.
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any as Unchecked
from typing import NamedTuple

import re2
from google.protobuf.any_pb2 import Any
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from validate import validate_pb2

from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding
from mesh_discovery.envoy_api._message_types import type_in, unpacked

_REGEX = "envoy.type.matcher.v3.RegexMatcher"
_NUMBERS = frozenset(
    {
        *("float", "double", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
        *("fixed32", "fixed64", "sfixed32", "sfixed64"),
    }
)
_HEADER_NAME = re.compile(r":?[0-9a-zA-Z!#$%&'*+\-.^_|~`]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_WRAPPER = re.compile(r"google\.protobuf\.[A-Za-z0-9]+Value")
_LINE_BREAK = re.compile(r"[\x00\r\n]")

Check = Callable[[Unchecked], str | None]
"""Returns what is wrong with a value, or None."""


class _Field(NamedTuple):
    """The constraints of a field."""

    name: str
    has_presence: bool
    """Whether it may be unset: a message, or one of a choice."""
    is_repeated: bool
    is_map: bool
    required: bool
    whole: Check | None
    """Of the value, or of the whole list or mapping."""
    items: Check | None
    recurses: bool


class _Type(NamedTuple):
    fields: tuple[_Field, ...]
    oneofs: tuple[str, ...]
    """Of which one must be chosen."""


def constraint_mistakes(message: Message, path: FieldPath = ()) -> Iterator[Finding]:
    """Yield the place of each constraint that a message breaks, and which."""
    if isinstance(message, Any):
        inner = unpacked(message)
        if inner is None:
            yield path, f'"{type_in(message.type_url)}" is no type of Envoy\'s API'
        else:
            yield from constraint_mistakes(inner, path)
        return
    if message.DESCRIPTOR.full_name == _REGEX:
        yield from _regex_mistakes(message, path)
    known = _type(message.DESCRIPTOR)
    for oneof in known.oneofs:
        if message.WhichOneof(oneof) is None:
            names = [each.name for each in message.DESCRIPTOR.oneofs_by_name[oneof].fields]
            yield path, f"needs one of {', '.join(names)}"
    for field in known.fields:
        yield from _field_mistakes(message, field, (*path, field.name))


def _field_mistakes(message: Message, field: _Field, path: FieldPath) -> Iterator[Finding]:
    if field.has_presence:
        if not message.HasField(field.name):
            if field.required:
                yield path, "is missing"
            return
        value = getattr(message, field.name)
        if field.whole is not None and (wrong := field.whole(value)) is not None:
            yield path, wrong
        if field.recurses:
            yield from constraint_mistakes(value, path)
        return
    value = getattr(message, field.name)
    if field.whole is not None and (wrong := field.whole(value)) is not None:
        yield path, wrong
    if not field.is_repeated or not value:
        return
    each: Iterable[tuple[str | int, Unchecked]]
    each = value.items() if field.is_map else enumerate(value)
    for key, item in each:
        if field.items is not None and (wrong := field.items(item)) is not None:
            yield (*path, key), wrong
        if field.recurses:
            yield from constraint_mistakes(item, (*path, key))


def _regex_mistakes(message: Unchecked, path: FieldPath) -> Iterator[Finding]:
    """Look at a regular expression as Envoy does."""
    try:
        re2.compile(message.regex, _quiet())
    except re2.error:
        yield (*path, "regex"), f'"{message.regex[:80]}" is not a regular expression of RE2'


@functools.cache
def _quiet() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    return options


@functools.cache
def _type(descriptor: Descriptor) -> _Type:
    fields = (_field(each) for each in descriptor.fields)
    return _Type(
        fields=tuple(each for each in fields if each is not None),
        oneofs=tuple(
            each.name
            for each in descriptor.oneofs
            if each.GetOptions().Extensions[validate_pb2.required]
        ),
    )


def _field(field: FieldDescriptor) -> _Field | None:
    rules = field.GetOptions().Extensions[validate_pb2.rules]
    kind = rules.WhichOneof("type")
    inner = field.message_type
    is_map = inner is not None and inner.GetOptions().map_entry
    content = inner.fields_by_name["value"].message_type if inner is not None and is_map else inner
    recurses = (
        content is not None
        and not rules.message.skip
        and (content.full_name == "google.protobuf.Any" or content.file.package[:6] != "google")
    )
    whole = items = None
    if kind == "repeated":
        whole, items = _list_check(rules.repeated), _check(rules.repeated.items, field)
    elif kind == "map":
        whole = _size_check(rules.map.min_pairs, 0)
        items = _check(rules.map.values, field)
        keys = _check(rules.map.keys, field)
        if keys is not None:
            whole = _both(whole, _of_keys(keys))
    elif kind is not None:
        whole = _check(rules, field)
    if whole is not None and inner is not None and _WRAPPER.fullmatch(inner.full_name):
        whole = _of_wrapper(whole)
    of_kind = kind in ("duration", "any") and getattr(rules, kind).required
    required = rules.message.required or of_kind
    if whole is None and items is None and not recurses and not required:
        return None
    return _Field(
        name=field.name,
        has_presence=field.has_presence,
        is_repeated=field.is_repeated,
        is_map=is_map,
        required=required and field.containing_oneof is None,
        whole=whole,
        items=items,
        recurses=recurses,
    )


def _both(first: Check | None, second: Check) -> Check:
    if first is None:
        return second
    before = first
    return lambda value: before(value) or second(value)


def _of_keys(check: Check) -> Check:
    return lambda value: next((wrong for key in value if (wrong := check(key)) is not None), None)


def _of_wrapper(check: Check) -> Check:
    return lambda wrapper: check(wrapper.value)


def _list_check(rules: Unchecked) -> Check | None:
    least, most = rules.min_items, rules.max_items
    if not (least or most or rules.unique):
        return None
    size = _size_check(least, most)

    def check(values: Unchecked) -> str | None:
        if rules.ignore_empty and not values:
            return None
        if size is not None and (wrong := size(values)) is not None:
            return wrong
        if rules.unique and len(set(values)) < len(values):
            return "has a value twice"
        return None

    return check


def _size_check(least: int, most: int) -> Check | None:
    if not (least or most):
        return None

    def check(values: Unchecked) -> str | None:
        if len(values) < least:
            return "is missing" if least == 1 else f"needs {least} at least"
        if most and len(values) > most:
            return f"may have {most} at most"
        return None

    return check


def _check(  # noqa: PLR0911 - one for each kind of values
    rules: Unchecked, field: FieldDescriptor
) -> Check | None:
    kind = rules.WhichOneof("type")
    if kind in _NUMBERS:
        return _number_check(getattr(rules, kind))
    if kind == "string":
        return _text_check(rules.string)
    if kind == "bytes":
        return _size_check(rules.bytes.min_len, rules.bytes.max_len)
    if kind == "duration":
        return _duration_check(rules.duration)
    if kind == "enum" and field.enum_type is not None:
        return _enum_check(rules.enum, field.enum_type)
    if kind == "bool" and rules.bool.HasField("const"):
        wanted = rules.bool.const
        return lambda value: None if value == wanted else f"must be {str(wanted).lower()}"
    return None


def _number_check(rules: Unchecked) -> Check | None:
    bounds = _bounds(rules, float)

    def check(value: Unchecked) -> str | None:
        if value == 0 and rules.ignore_empty:
            return None
        return bounds(value)

    return check


def _duration_check(rules: Unchecked) -> Check:
    return _bounds(rules, lambda value: value.seconds + value.nanos / 1e9, unit="s")


def _bounds(rules: Unchecked, plain: Callable[[Unchecked], float], unit: str = "") -> Check:
    limits: list[tuple[str, Callable[[float, float], bool], float]] = []
    for name, word, holds in (
        ("gt", "more than", lambda value, limit: value > limit),
        ("gte", "at least", lambda value, limit: value >= limit),
        ("lt", "less than", lambda value, limit: value < limit),
        ("lte", "at most", lambda value, limit: value <= limit),
    ):
        if rules.HasField(name):
            limits.append((word, holds, plain(getattr(rules, name))))

    def check(value: Unchecked) -> str | None:
        number = plain(value)
        for word, holds, limit in limits:
            if not holds(number, limit):
                return f"must be {word} {limit:g}{unit}, found {number:g}{unit}"
        return None

    return check


def _enum_check(rules: Unchecked, enum: EnumDescriptor) -> Check:
    known = enum.values_by_number
    excluded = frozenset(rules.not_in)

    def check(value: Unchecked) -> str | None:
        if (rules.defined_only and value not in known) or value in excluded:
            allowed = (name.name for number, name in known.items() if number not in excluded)
            return f"must be one of {', '.join(allowed)}"
        return None

    return check


def _text_check(rules: Unchecked) -> Check:
    pattern = re2.compile(rules.pattern) if rules.pattern else None
    known = validate_pb2.KnownRegex
    strict = rules.strict if rules.HasField("strict") else True

    def check(value: Unchecked) -> str | None:  # noqa: PLR0911
        if not value and rules.ignore_empty:
            return None
        if len(value) < rules.min_len or len(value.encode()) < rules.min_bytes:
            return "is missing" if not value else "is too short"
        if rules.max_len and len(value) > rules.max_len:
            return f"may have {rules.max_len} characters at most"
        if rules.max_bytes and len(value.encode()) > rules.max_bytes:
            return f"may have {rules.max_bytes} bytes at most"
        if pattern is not None and pattern.search(value) is None:
            return f"must match {rules.pattern}"
        if rules.prefix and not value.startswith(rules.prefix):
            return f'must begin with "{rules.prefix}"'
        if rules.suffix and not value.endswith(rules.suffix):
            return f'must end with "{rules.suffix}"'
        if len(getattr(rules, "in")) and value not in getattr(rules, "in"):
            return f"must be one of {', '.join(getattr(rules, 'in'))}"
        if rules.well_known_regex == known.HTTP_HEADER_NAME and value:
            refused = not _HEADER_NAME.fullmatch(value) if strict else _LINE_BREAK.search(value)
            return "is no name of a header" if refused else None
        if rules.well_known_regex == known.HTTP_HEADER_VALUE:
            refused = (_CONTROL if strict else _LINE_BREAK).search(value)
            return "has characters that headers can't have" if refused else None
        return None

    return check
