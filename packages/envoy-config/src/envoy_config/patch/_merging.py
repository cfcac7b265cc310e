"""Merges a part of a message into a whole one, as Istio merges patches.

Scalars overwrite, messages are merged field by field, lists are appended to, or replaced if asked
for, and mappings united. Durations and wrapped scalars are values, and overwrite. The
configuration of a filter, an `Any`, is merged with one of the same type.
Source: Istio's API, networking/v1alpha3 EnvoyFilter, `Patch.Operation.MERGE`.
"""

from typing import Any as Unchecked

from google.protobuf.any_pb2 import Any
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from envoy_config.patch._failures import PatchError
from istio_config.envoy_api import type_in, unpacked

Configured = Unchecked
"""A filter of some sort, or a transport socket: a message with a `typed_config`."""
_VALUES = frozenset(
    {
        "google.protobuf.Any",
        "google.protobuf.Duration",
        "google.protobuf.Timestamp",
        *(
            f"google.protobuf.{each}Value"
            for each in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String")
        ),
        "google.protobuf.UInt32Value",
        "google.protobuf.UInt64Value",
    }
)
"""Types that are overwritten as a whole."""


def merge(into: Message, part: Message, *, replaces_lists: bool = False) -> None:
    """Merge a part of a message into another of its type."""
    for field, value in part.ListFields():
        inner = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            _unite(getattr(into, field.name), value, inner.fields_by_name["value"])
        elif field.is_repeated:
            if replaces_lists:
                into.ClearField(field.name)
            getattr(into, field.name).extend(value)
        elif inner is None:
            setattr(into, field.name, value)
        elif inner.full_name in _VALUES:
            getattr(into, field.name).CopyFrom(value)
        else:
            existing = getattr(into, field.name)
            existing.SetInParent()
            merge(existing, value, replaces_lists=replaces_lists)


def merge_config(into: Any, part: Any, *, replaces_lists: bool = False) -> None:
    """Merge a part of a configuration into one; raises `PatchError` if they differ in type."""
    if type_in(into.type_url) != type_in(part.type_url):
        raise PatchError(
            f"is of the type {type_in(part.type_url)}, and there is a {type_in(into.type_url)}"
        )
    whole, some = unpacked(into), unpacked(part)
    if whole is None or some is None:
        raise PatchError(f"{type_in(into.type_url)} is not known")
    merge(whole, some, replaces_lists=replaces_lists)
    into.value = whole.SerializeToString(deterministic=True)


def merge_filter(into: Configured, part: Configured, *, replaces_lists: bool = False) -> None:
    """Merge a part of a filter of any sort, or of a transport socket, into one."""
    rest = type(part)()
    rest.CopyFrom(part)
    if _has_config(part) and _has_config(into):
        rest.ClearField("typed_config")
        merge_config(into.typed_config, part.typed_config, replaces_lists=replaces_lists)
    merge(into, rest, replaces_lists=replaces_lists)


def same_config_type(one: Configured, other: Configured) -> bool:
    """Return whether the configurations of two filters are of one type, if they have any."""
    if not (_has_config(one) and _has_config(other)):
        return True
    types = {type_in(each.typed_config.type_url) for each in (one, other)}
    return len(types) == 1


def _has_config(message: Configured) -> bool:
    return bool(message.HasField("typed_config"))


def _unite(into: Unchecked, part: Unchecked, value: FieldDescriptor) -> None:
    """Take the entries of a mapping over into another."""
    for key in part:
        if value.message_type is None:
            into[key] = part[key]
        else:
            into[key].CopyFrom(part[key])
