"""Messages of plain data, such as YAML holds, by protobuf's JSON mapping; every mistake is named.

The library stops at the first mistake. So each field is compared with the type's descriptor first,
and only single values are left to the library.
Source: the JSON mapping of protobuf (protobuf.dev/programming-guides/json).
"""

from collections.abc import Iterator, Mapping
from typing import Any as Unchecked

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from istio_config.envoy_api._message_types import (
    TYPED_STRUCTS,
    find_type,
    is_of_old_api,
    message_class,
)
from istio_config.type_urls import type_in
from mesh_configfile import FieldPath, Value, suggestion
from mesh_configfile.shapes import Finding

_ANY = "google.protobuf.Any"
_EXPECTED = {
    "google.protobuf.Duration": 'a duration in seconds, such as "1.5s"',
    "google.protobuf.Timestamp": 'a time, such as "2030-01-31T12:00:00Z"',
    "google.protobuf.FieldMask": 'names of fields, such as "a,b"',
    "google.protobuf.Struct": "a mapping",
    "google.protobuf.ListValue": "a list",
    "google.protobuf.Value": "any value",
    "google.protobuf.BoolValue": "true or false",
    "google.protobuf.StringValue": "text",
    "google.protobuf.BytesValue": "text in base64",
    "google.protobuf.DoubleValue": "a number",
    "google.protobuf.FloatValue": "a number",
    "google.protobuf.Int32Value": "a whole number",
    "google.protobuf.Int64Value": "a whole number",
    "google.protobuf.UInt32Value": "a whole number that is not negative",
    "google.protobuf.UInt64Value": "a whole number that is not negative",
}
"""The types that have a JSON form of their own."""
_MOST_LISTED = 12
_NATURAL = "a whole number that is not negative"
_SCALARS = {
    FieldDescriptor.CPPTYPE_BOOL: "true or false",
    FieldDescriptor.CPPTYPE_DOUBLE: "a number",
    FieldDescriptor.CPPTYPE_FLOAT: "a number",
    FieldDescriptor.CPPTYPE_INT32: "a whole number",
    FieldDescriptor.CPPTYPE_INT64: "a whole number",
    FieldDescriptor.CPPTYPE_UINT32: _NATURAL,
    FieldDescriptor.CPPTYPE_UINT64: _NATURAL,
    FieldDescriptor.CPPTYPE_STRING: "text",
}


def message_of(value: Unchecked, descriptor: Descriptor) -> Message:
    """Return the message of plain data that has no `message_differences`.

    Raises `ValueError` if there is a mistake after all.
    """
    for name in _types_named(value):
        find_type(name)  # the library looks for the types in the pool
    try:
        return json_format.ParseDict(value, message_class(descriptor)())
    except json_format.ParseError as error:
        raise ValueError(str(error)) from error


def message_differences(value: Value, descriptor: Descriptor, path: FieldPath) -> Iterator[Finding]:
    """Yield the path of each difference from a message's type, with what would be right."""
    if descriptor.full_name == _ANY:
        yield from _any(value, path)
    elif descriptor.full_name in _EXPECTED:
        if not _is_taken(value, descriptor):
            yield path, f"expected {_EXPECTED[descriptor.full_name]}, found {_found(value)}"
    elif not isinstance(value, dict):
        yield path, f"expected the fields of {descriptor.full_name}, found {_found(value)}"
    else:
        yield from _fields(value, descriptor, path)


def _fields(
    value: Mapping[str, Value], descriptor: Descriptor, path: FieldPath
) -> Iterator[Finding]:
    by_name = _by_name(descriptor)
    chosen: dict[str, str] = {}
    for key, inner in value.items():
        field = by_name.get(key)
        if field is None:
            known = {each.name for each in descriptor.fields}
            hint = suggestion(key, known, listed=len(known) <= _MOST_LISTED)
            yield (*path, key), f"is no field of {descriptor.full_name}{hint}"
            continue
        if inner is None:
            continue
        if field.name != key and field.name in value:
            yield (*path, key), f"is {field.name} once more: keep one"
        oneof = field.containing_oneof
        if oneof is not None:
            other = chosen.setdefault(oneof.name, key)
            if other != key:
                yield (*path, key), f"excludes {other}: keep one"
        yield from _field(inner, field, (*path, key))


def _field(value: Value, field: FieldDescriptor, path: FieldPath) -> Iterator[Finding]:
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        if not isinstance(value, dict):
            yield path, f"expected a mapping, found {_found(value)}"
            return
        for key, each in value.items():
            yield from _single(each, inner.fields_by_name["value"], (*path, key))
    elif field.is_repeated:
        if not isinstance(value, list):
            yield path, f"expected a list, found {_found(value)}"
            return
        for index, each in enumerate(value):
            yield from _single(each, field, (*path, index))
    else:
        yield from _single(value, field, path)


def _single(value: Value, field: FieldDescriptor, path: FieldPath) -> Iterator[Finding]:
    if field.message_type is not None:
        yield from message_differences(value, field.message_type, path)
    elif field.enum_type is not None:
        names = field.enum_type.values_by_name
        numbers = field.enum_type.values_by_number
        if value not in names and not (_is_whole(value) and value in numbers):
            yield path, f"expected one of {', '.join(names)}, found {_found(value)}"
    elif not _is_scalar(value, field):
        bytes_ = field.type == FieldDescriptor.TYPE_BYTES
        expected = "text in base64" if bytes_ else _SCALARS[field.cpp_type]
        yield path, f"expected {expected}, found {_found(value)}"


def _any(value: Value, path: FieldPath) -> Iterator[Finding]:
    if not isinstance(value, dict):
        yield path, f'expected a mapping with the type URL in "@type", found {_found(value)}'
        return
    url = value.get("@type")
    if url is None:
        yield path, 'the field "@type" is missing; it has the type URL of the configuration'
        return
    here = (*path, "@type")
    descriptor = None
    wrong = type_url_mistake(url)
    if wrong is None and isinstance(url, str):
        descriptor = find_type(type_in(url))
    if descriptor is None:
        yield here, wrong or f'"{url}" is no type of Envoy\'s API'
        return
    if descriptor.full_name in _EXPECTED or descriptor.full_name == _ANY:
        yield from message_differences(value.get("value"), descriptor, (*path, "value"))
        return
    fields = {key: each for key, each in value.items() if key != "@type"}
    yield from message_differences(fields, descriptor, path)
    if descriptor.full_name in TYPED_STRUCTS:
        yield from _typed_struct(fields, path)


def _typed_struct(value: Mapping[str, Value], path: FieldPath) -> Iterator[Finding]:
    """Look at the message that is given as plain data inside another."""
    key = "type_url" if "type_url" in value else "typeUrl"
    url = value.get(key)
    if url is None:
        yield path, "the field type_url is missing; it has the type URL of the value"
        return
    if (wrong := type_url_mistake(url)) is not None:
        yield (*path, key), wrong
        return
    descriptor = find_type(type_in(str(url)))
    if descriptor is not None and value.get("value") is not None:
        yield from message_differences(value["value"], descriptor, (*path, "value"))


def type_url_mistake(url: Value) -> str | None:
    """Return what is wrong with a type URL, or None."""
    if not isinstance(url, str) or not type_in(url):
        return f"expected a type URL, such as type.googleapis.com/NAME, found {_found(url)}"
    name = type_in(url)
    if is_of_old_api(name):
        return f'"{name}" is of Envoy\'s API v2, which no Envoy takes any more; use that of v3'
    if find_type(name) is None:
        return f'"{name}" is no type of Envoy\'s API'
    return None


def _types_named(value: Value) -> Iterator[str]:
    if isinstance(value, dict):
        url = value.get("@type")
        if isinstance(url, str):
            yield type_in(url)
        for each in value.values():
            yield from _types_named(each)
    elif isinstance(value, list):
        for each in value:
            yield from _types_named(each)


def _by_name(descriptor: Descriptor) -> Mapping[str, FieldDescriptor]:
    return {**descriptor.fields_by_name, **descriptor.fields_by_camelcase_name}


def _is_taken(value: Unchecked, descriptor: Descriptor) -> bool:
    if value is None:
        return descriptor.full_name == "google.protobuf.Value"
    try:
        json_format.ParseDict(value, message_class(descriptor)())
    except (json_format.ParseError, TypeError, ValueError, AttributeError):
        return False
    return True


def _is_scalar(value: Value, field: FieldDescriptor) -> bool:
    holder = field.containing_type
    if holder is None or holder.GetOptions().map_entry:
        return _is_scalar_of_map(value, field)
    message = message_class(holder)()
    given: Value = [value] if field.is_repeated else value
    try:
        json_format.ParseDict({field.name: given}, message)
    except (json_format.ParseError, TypeError, ValueError):
        return False
    return value is not None


def _is_scalar_of_map(value: Value, field: FieldDescriptor) -> bool:
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return isinstance(value, str)
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return isinstance(value, bool)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _found(value: Value) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value}"
        case str():
            return f'the text "{value[:80]}"'
        case list():
            return "a list"
        case dict():
            return "a mapping"
