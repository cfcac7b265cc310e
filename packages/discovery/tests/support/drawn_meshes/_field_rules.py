"""Checks messages by the rules that Envoy's protos state for their fields.

Envoy refuses what breaks them. They are read from the descriptors (protoc-gen-validate).
"""

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, TypeAlias

from google.protobuf import any_pb2, duration_pb2, symbol_database
from google.protobuf.message import Message
from validate import validate_pb2

FieldDescriptor: TypeAlias = Any
"""Of protobuf's pure Python or of its compiled descriptors, which share no type."""

_HEADER_NAME = re.compile(r":?[0-9a-zA-Z!#$%&'*+\-.^_|~`]+")
_HEADER_VALUE = re.compile("[^\u0000-\u0008\u000a-\u001f\u007f]*")
_LINE = re.compile("[^\u0000\u000a\u000d]*")


def broken_rules(message: Message, path: str = "") -> Iterator[str]:
    """Yield each rule that a message breaks, with the path of the field; looks into every Any."""
    if isinstance(message, any_pb2.Any):
        if message.type_url:
            found = _unpacked(message)
            yield from broken_rules(found, f"{path}<{found.DESCRIPTOR.name}>")
        return
    descriptor = message.DESCRIPTOR
    if descriptor.GetOptions().Extensions[validate_pb2.disabled]:
        return
    for oneof in descriptor.oneofs:
        if oneof.GetOptions().Extensions[validate_pb2.required] and not message.WhichOneof(
            oneof.name
        ):
            yield f"{path}: one of {oneof.name} is required"
    for field in descriptor.fields:
        yield from _broken_by_field(message, field, f"{path}.{field.name}")


def _unpacked(message: any_pb2.Any) -> Message:
    name = message.type_url.rpartition("/")[2]
    found: Message = symbol_database.Default().GetSymbol(name)()
    found.ParseFromString(message.value)
    return found


@cache
def _rules(field: FieldDescriptor) -> Any:
    options = field.GetOptions()
    return (
        options.Extensions[validate_pb2.rules] if options.HasExtension(validate_pb2.rules) else None
    )


def _broken_by_field(message: Message, field: FieldDescriptor, path: str) -> Iterator[str]:
    rules = _rules(field)
    value = getattr(message, field.name)
    if field.is_repeated:
        yield from _broken_by_many(field, rules, value, path)
    elif field.message_type is not None:
        present = message.HasField(field.name)
        # Of several choices only the one that is set has rules.
        one_of = field.containing_oneof is not None
        if rules is not None and rules.message.required and not present and not one_of:
            yield f"{path}: is required"
        if present:
            yield from _broken_by_message(value, rules, path)
    elif field.containing_oneof is None or message.WhichOneof(field.containing_oneof.name) == (
        field.name
    ):
        given = not field.has_presence or message.HasField(field.name)
        if rules is not None and given:
            yield from _broken_by_value(field, rules, value, path)


def _broken_by_many(field: FieldDescriptor, rules: Any, values: Any, path: str) -> Iterator[str]:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        own = rules.map if rules is not None and rules.HasField("map") else None
        yield from _broken_by_map(field, own, values, path)
        return
    own = rules.repeated if rules is not None and rules.HasField("repeated") else None
    if own is not None:
        if own.ignore_empty and not values:
            return
        if len(values) < own.min_items:
            yield f"{path}: at least {own.min_items} items"
        if own.HasField("max_items") and len(values) > own.max_items:
            yield f"{path}: at most {own.max_items} items"
        if own.unique and len({str(each) for each in values}) != len(values):
            yield f"{path}: items must be unique"
    items = own.items if own is not None and own.HasField("items") else None
    for index, value in enumerate(values):
        yield from _broken_by_item(field, items, value, f"{path}[{index}]")


def _broken_by_map(field: FieldDescriptor, rules: Any, values: Any, path: str) -> Iterator[str]:
    by_name = field.message_type.fields_by_name
    if rules is not None and len(values) < rules.min_pairs:
        yield f"{path}: at least {rules.min_pairs} entries"
    of_keys = rules.keys if rules is not None and rules.HasField("keys") else None
    of_values = rules.values if rules is not None and rules.HasField("values") else None
    for key in values:
        yield from _broken_by_item(by_name["key"], of_keys, key, f"{path}[{key!r}]")
        yield from _broken_by_item(by_name["value"], of_values, values[key], f"{path}[{key!r}]")


def _broken_by_item(field: FieldDescriptor, rules: Any, value: Any, path: str) -> Iterator[str]:
    if field.message_type is not None:
        yield from _broken_by_message(value, rules, path)
    elif rules is not None:
        yield from _broken_by_value(field, rules, value, path)


def _broken_by_message(value: Message, rules: Any, path: str) -> Iterator[str]:
    if rules is not None and rules.message.skip:
        return
    if rules is not None and rules.HasField("duration"):
        yield from _broken_duration(value, rules.duration, path)
    kind = rules.WhichOneof("type") if rules is not None else None
    if (
        kind is not None
        and value.DESCRIPTOR.full_name.startswith("google.protobuf.")
        and (value.DESCRIPTOR.name.endswith("Value") and "value" in value.DESCRIPTOR.fields_by_name)
    ):
        # A wrapper's rules are those of its value.
        inner = value.DESCRIPTOR.fields_by_name["value"]
        yield from _broken_by_value(inner, rules, getattr(value, "value"), path)  # noqa: B009
        return
    if kind == "any" and isinstance(value, any_pb2.Any):
        if rules.any.required and not value.type_url:
            yield f"{path}: is required"
        if getattr(rules.any, "in") and value.type_url not in getattr(rules.any, "in"):
            yield f"{path}: {value.type_url} is not one of its types"
    yield from broken_rules(value, path)


_COMPARED: Mapping[str, Callable[[float, float], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


def _broken_duration(value: Message, rules: Any, path: str) -> Iterator[str]:
    assert isinstance(value, duration_pb2.Duration)
    for name, holds in _COMPARED.items():
        if rules.HasField(name) and not holds(
            value.ToNanoseconds(), getattr(rules, name).ToNanoseconds()
        ):
            yield f"{path}: {value.ToJsonString()} is not {name} its bound"


def _broken_by_value(field: FieldDescriptor, rules: Any, value: Any, path: str) -> Iterator[str]:
    kind = rules.WhichOneof("type")
    if kind is None:
        return
    own = getattr(rules, kind)
    if getattr(own, "ignore_empty", False) and not value:
        return
    if kind == "string":
        yield from _broken_string(own, value, path)
    elif kind == "bytes":
        if len(value) < own.min_len:
            yield f"{path}: at least {own.min_len} bytes"
    elif kind == "enum":
        if own.defined_only and value not in field.enum_type.values_by_number:
            yield f"{path}: {value} is not defined"
        yield from _not_among(own, value, path)
    elif kind != "bool":
        yield from _broken_number(own, value, path)
    if own.DESCRIPTOR.fields_by_name.get("const") and own.HasField("const") and value != own.const:
        yield f"{path}: must be {own.const!r}"


def _broken_number(rules: Any, value: float, path: str) -> Iterator[str]:
    for name, holds in _COMPARED.items():
        if rules.HasField(name) and not holds(value, getattr(rules, name)):
            yield f"{path}: {value} is not {name} {getattr(rules, name)}"
    yield from _not_among(rules, value, path)


def _not_among(rules: Any, value: Any, path: str) -> Iterator[str]:
    if getattr(rules, "in") and value not in getattr(rules, "in"):
        yield f"{path}: {value!r} is not one of those allowed"
    if value in rules.not_in:
        yield f"{path}: {value!r} is not allowed"


def _broken_string(rules: Any, value: str, path: str) -> Iterator[str]:
    size = len(value.encode())
    for holds, name in (
        (len(value) >= rules.min_len, "min_len"),
        (len(value) <= rules.max_len or not rules.HasField("max_len"), "max_len"),
        (size >= rules.min_bytes, "min_bytes"),
        (size <= rules.max_bytes or not rules.HasField("max_bytes"), "max_bytes"),
        (value.startswith(rules.prefix), "prefix"),
        (value.endswith(rules.suffix), "suffix"),
        (rules.contains in value, "contains"),
    ):
        if not holds:
            yield f"{path}: {value!r}: {name} {getattr(rules, name)}"
    if rules.HasField("pattern") and re.search(rules.pattern, value) is None:
        yield f"{path}: {value!r} does not match {rules.pattern}"
    known = rules.well_known_regex
    if known:
        strict = not rules.HasField("strict") or rules.strict
        pattern = _LINE
        if strict:
            pattern = _HEADER_NAME if known == 1 else _HEADER_VALUE
        if value and pattern.fullmatch(value) is None:
            yield f"{path}: {value!r} is no header"
    yield from _not_among(rules, value, path)
