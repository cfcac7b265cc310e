"""One resource, serialised once: the unit that is shared by every stream it is sent on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from google.protobuf.message import Message

_TYPE_PREFIX = "type.googleapis.com/"
_VERSION_HEX_DIGITS = 16


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

    # What precedes the body on the wire, kept by `_response_encoding` after its first use.
    _sotw_head: bytes = field(default=b"", init=False, repr=False, compare=False)
    _delta_head: bytes = field(default=b"", init=False, repr=False, compare=False)
    # Of a cluster: the name of its endpoints, "" if it has none; kept by `_references`.
    _endpoints: str | None = field(default=None, init=False, repr=False, compare=False)
    # Of a listener: the names of its routes; likewise.
    _routes: tuple[str, ...] | None = field(default=None, init=False, repr=False, compare=False)

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
    """The version of a resource whose serialised content is `body`: equal bytes, equal version."""
    return hashlib.sha256(body).hexdigest()[:_VERSION_HEX_DIGITS]
