"""One resource, serialised once: the unit that is shared by every stream it is sent on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.protobuf.message import Message

_TYPE_PREFIX = "type.googleapis.com/"
_VERSION_HEX_DIGITS = 16


class Derived:
    """Facts read off one resource, and bytes written in front of it, when they are first needed.

    `delta_head` precedes the body in a delta response; `_response_encoding` writes it. `endpoints`
    is the name of a cluster's endpoints ("" if it has none) and `routes` are the names of a
    listener's routes; `_references` reads them.
    """

    __slots__ = ("delta_head", "endpoints", "routes")

    def __init__(self) -> None:
        self.delta_head = b""
        self.endpoints: str | None = None
        self.routes: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A named resource, already serialised.

    `body` is the serialised message (the `value` of its `Any`) and may hold a secret, so it is
    left out of the repr. Two resources of one name and one version are taken to be the same:
    a version must change whenever the body does, which `content_version` sees to.
    """

    name: str
    type_url: str
    body: bytes = field(repr=False)
    version: str
    ttl_s: float | None = None

    _derived: Derived = field(default_factory=Derived, init=False, repr=False, compare=False)

    @classmethod
    def pack(cls, message: Message, *, name: str, ttl_s: float | None = None) -> Resource:
        """Serialise `message` as the resource `name`; its version is a hash of its content."""
        body = message.SerializeToString(deterministic=True)
        return cls(
            name=name,
            type_url=_TYPE_PREFIX + message.DESCRIPTOR.full_name,
            body=body,
            version=content_version(body),
            ttl_s=ttl_s,
        )


def content_version(body: bytes) -> str:
    """Return the version of a resource with this serialised content: equal for equal bytes."""
    return hashlib.sha256(body).hexdigest()[:_VERSION_HEX_DIGITS]
