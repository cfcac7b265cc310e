"""`google.protobuf.Any`: a message with the name of its type."""

from __future__ import annotations

from typing import NamedTuple

from mesh_protowire._fields import text_of, value_of
from mesh_protowire._writing import bytes_field, string_field

_TYPE_URL, _VALUE = 1, 2


class Packed(NamedTuple):
    """A message and its type.

    type_url: as it was given, such as `type.googleapis.com/envoy.config.cluster.v3.Cluster`.
    value: the serialised message.
    """

    type_url: str
    value: bytes

    def pack(self) -> bytes:
        """Return the serialised `Any`."""
        return string_field(_TYPE_URL, self.type_url) + bytes_field(_VALUE, self.value)


def unpack(data: bytes) -> Packed:
    """Read a serialised `Any`. Raises WireError."""
    return Packed(text_of(data, _TYPE_URL), value_of(data, _VALUE) or b"")


def type_name(type_url: str) -> str:
    """Return the message's full name, which is the URL's last part."""
    return type_url.rpartition("/")[2]
