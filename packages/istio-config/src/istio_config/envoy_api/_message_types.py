"""Message types of Envoy's API by their names.

A type's module is imported when the type is first named: all of xds-protos would cost a second and
15 MB, the module of one type costs milliseconds. A package of the API is a folder of modules.
"""

import functools
import importlib
import pkgutil
import re

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.any_pb2 import Any
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

from istio_config.type_urls import type_in

TYPE_PREFIX = "type.googleapis.com/"
_ROOTS = ("cel", "envoy", "google", "opentelemetry", "udpa", "xds")
_PACKAGE_WORD = re.compile(r"[a-z][a-z0-9_]*")
_OLD_API = re.compile(r"envoy\.(.+\.)?v2(alpha\d*)?\.[^.]+")
TYPED_STRUCTS = frozenset({"udpa.type.v1.TypedStruct", "xds.type.v3.TypedStruct"})
"""Messages that hold another one as plain data, with its type URL."""


@functools.lru_cache(maxsize=4096)
def find_type(full_name: str) -> Descriptor | None:
    """Return the type of a message, such as `envoy.config.cluster.v3.Cluster`, if there is one."""
    words = full_name.split(".")
    package = []
    for word in words:
        if not _PACKAGE_WORD.fullmatch(word):
            break
        package.append(word)
    if not package or len(package) == len(words) or package[0] not in _ROOTS:
        return None
    if (known := _in_pool(full_name)) is not None:
        return known
    try:
        folder = importlib.import_module(".".join(package))
    except ImportError:
        return None
    for each in pkgutil.iter_modules(folder.__path__):
        if each.name.endswith("_pb2"):
            importlib.import_module(f"{folder.__name__}.{each.name}")
            if (known := _in_pool(full_name)) is not None:
                return known
    return None


def message_class(descriptor: Descriptor) -> type[Message]:
    """Return the class of a type's messages."""
    return message_factory.GetMessageClass(descriptor)


def is_of_old_api(full_name: str) -> bool:
    """Return whether a type is of Envoy's API v2, which no Envoy of today takes."""
    return _OLD_API.fullmatch(full_name) is not None


def unpacked(packed: Any) -> Message | None:
    """Return the message in an `Any`; None if its type is unknown or its content does not parse."""
    descriptor = find_type(type_in(packed.type_url))
    if descriptor is None:
        return None
    message = message_class(descriptor)()
    try:
        message.ParseFromString(packed.value)
    except DecodeError:
        return None
    return message


def content_type(packed: Any) -> str:
    """Return the name of a configuration's type; of a `TypedStruct`, that of what it holds."""
    name = type_in(packed.type_url)
    if name not in TYPED_STRUCTS:
        return name
    inner = unpacked(packed)
    return type_in(getattr(inner, "type_url", "")) if inner is not None else ""


def _in_pool(full_name: str) -> Descriptor | None:
    try:
        return descriptor_pool.Default().FindMessageTypeByName(full_name)
    except KeyError:
        return None
