"""The constraints that Envoy's API puts on messages: Envoy refuses a resource that breaks one.

They are options of fields (protoc-gen-validate, `validate/validate.proto`), read by reflection.
Configurations in `Any` fields are looked into, as Envoy does.
"""

import functools
import re
from collections.abc import Mapping
from typing import Any as Unchecked
from typing import NamedTuple

from google.protobuf.any_pb2 import Any
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from validate import validate_pb2

from istio_config.envoy_api._message_types import unpacked
from istio_config.envoy_api._type_checks import type_checks
from istio_config.envoy_api._value_checks import (
    Check,
    TypeCheck,
    both,
    list_check,
    not_negative,
    of_keys,
    of_wrapper,
    size_check,
    value_check,
)
from istio_config.type_urls import type_in
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding

_WRAPPER = re.compile(r"google\.protobuf\.[A-Za-z0-9]+Value")
_DURATION = "google.protobuf.Duration"
_ANY = "google.protobuf.Any"


class _Field(NamedTuple):
    """The constraints of a field that is set."""

    name: str
    is_map: bool
    is_repeated: bool
    whole: Check | None
    """The check of the value. Those of a whole list or mapping are in `always`."""
    items: Check | None
    recurses: bool


class _Type(NamedTuple):
    """The constraints of a type; most fields of a message are not set, and not looked at."""

    oneofs: tuple[str, ...]
    """The oneofs of which a field must be set."""
    required: tuple[str, ...]
    always: tuple[tuple[str, Check], ...]
    """The checks of fields that have a value also when unset."""
    given: Mapping[str, _Field]
    demands: tuple[TypeCheck, ...]


def constraint_mistakes(message: Message, path: FieldPath = ()) -> list[Finding]:
    """Return the path of each field that breaks a constraint, and which it is."""
    found: list[Finding] = []
    _look(message, path, found)
    return found


def _look(message: Message, path: FieldPath, found: list[Finding]) -> None:
    if isinstance(message, Any):
        inner = unpacked(message)
        if inner is not None:
            _look(inner, path, found)
        else:
            found.append((path, f'"{type_in(message.type_url)}" is no type of Envoy\'s API'))
    else:
        _look_at_fields(message, path, found)


def _look_at_fields(message: Message, path: FieldPath, found: list[Finding]) -> None:
    descriptor = message.DESCRIPTOR
    known = _type(descriptor)
    demanded = (demand(message) for demand in known.demands)
    found += [((*path, each[0]), each[1]) for each in demanded if each is not None]
    for oneof in known.oneofs:
        if message.WhichOneof(oneof) is None:
            names = [each.name for each in descriptor.oneofs_by_name[oneof].fields]
            found.append((path, f"needs one of {', '.join(names)}"))
    missing = (name for name in known.required if not message.HasField(name))
    found += [((*path, name), "is missing") for name in missing]
    for name, check in known.always:
        if (wrong := check(getattr(message, name))) is not None:
            found.append(((*path, name), wrong))
    if known.given:
        for field, value in message.ListFields():
            given = known.given.get(field.name)
            if given is not None:
                _look_at_field(value, given, (*path, given.name), found)


def _look_at_field(value: Unchecked, field: _Field, path: FieldPath, found: list[Finding]) -> None:
    if not field.is_repeated:
        if field.whole is not None and (wrong := field.whole(value)) is not None:
            found.append((path, wrong))
        if field.recurses:
            _look(value, path, found)
        return
    for key, item in value.items() if field.is_map else enumerate(value):
        if field.items is not None and (wrong := field.items(item)) is not None:
            found.append(((*path, key), wrong))
        if field.recurses:
            _look(item, (*path, key), found)


@functools.cache
def _type(descriptor: Descriptor) -> _Type:
    required: list[str] = []
    always: list[tuple[str, Check]] = []
    given: dict[str, _Field] = {}
    for field in descriptor.fields:
        rules = field.GetOptions().Extensions[validate_pb2.rules]
        if _is_required(rules) and field.containing_oneof is None:
            required.append(field.name)
        checks = _field(field, rules)
        if checks.whole is not None and not field.has_presence:
            always.append((field.name, checks.whole))
            checks = checks._replace(whole=None)
        if checks.whole is not None or checks.items is not None or checks.recurses:
            given[field.name] = checks
    oneofs = (
        each.name
        for each in descriptor.oneofs
        if each.GetOptions().Extensions[validate_pb2.required]
    )
    return _Type(tuple(oneofs), tuple(required), tuple(always), given, type_checks(descriptor))


def _is_required(rules: Unchecked) -> bool:
    kind = rules.WhichOneof("type")
    of_kind = kind in ("duration", "any") and getattr(rules, kind).required
    return bool(rules.message.required or of_kind)


def _field(field: FieldDescriptor, rules: Unchecked) -> _Field:
    kind = rules.WhichOneof("type")
    inner = field.message_type
    is_map = inner is not None and inner.GetOptions().map_entry
    content = inner.fields_by_name["value"].message_type if inner is not None and is_map else inner
    whole = items = None
    if kind == "repeated":
        whole, items = list_check(rules.repeated), value_check(rules.repeated.items, field)
    elif kind == "map":
        whole = size_check(rules.map.min_pairs, 0)
        items = value_check(rules.map.values, field)
        keys = value_check(rules.map.keys, field)
        if keys is not None:
            whole = both(whole, of_keys(keys))
    elif kind is not None:
        whole = value_check(rules, field)
    if whole is not None and inner is not None and _WRAPPER.fullmatch(inner.full_name):
        whole = of_wrapper(whole)
    if whole is None and inner is not None and inner.full_name == _DURATION:
        whole = not_negative
    return _Field(
        name=field.name,
        is_map=is_map,
        is_repeated=field.is_repeated,
        whole=whole,
        items=items,
        recurses=content is not None and not rules.message.skip and _has_parts(content),
    )


def _has_parts(descriptor: Descriptor) -> bool:
    """Return whether a type has constraints, or fields with a type that has."""
    return descriptor.full_name == _ANY or not descriptor.full_name.startswith("google.")
