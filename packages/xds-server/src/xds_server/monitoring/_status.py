"""The status of clients, as plain values for people and tools to read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from xds_server.protocol._node import Node

_LONGEST_REASON = 4096
"""The characters that are kept of a client's error message."""


def shorten(reason: str) -> str:
    """Return the beginning of a client's error message, and how much of it is left out."""
    left_out = len(reason) - _LONGEST_REASON
    if left_out <= 0:
        return reason
    return f"{reason[:_LONGEST_REASON]}... ({left_out} more characters)"


class Nack(msgspec.Struct, frozen=True, kw_only=True):
    """A response the client refused: why, how often, and since when. Times are wall clock."""

    version: str
    nonce: str
    code: int
    message: str
    since: float
    last: float
    count: int


class TypeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One type of one stream.

    `nack` is set while the client's last answer for this type was a refusal; `nacks` counts all.
    """

    type_url: str
    names: frozenset[str]
    wildcard: bool
    resources: int
    nonce_sent: str = ""
    version_sent: str = ""
    sent_at: float | None = None
    nonce_acked: str = ""
    version_acked: str = ""
    acked_at: float | None = None
    nack: Nack | None = None
    nacks: int = 0

    @property
    def in_sync(self) -> bool:
        """Whether the client has accepted the last response."""
        return self.nonce_sent == self.nonce_acked


class TypePush(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of resources of one type in one push to one client.

    `sent` were in its responses, also those that a state-of-the-world client had already; `removed`
    are those whose removal was sent to a delta client; `unchanged` are the others that it has.
    """

    sent: int
    removed: int
    unchanged: int


class PushStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The last push to one client: why, when it was sent completely, and what was in it by type.

    `reasons` are those of the push request, at most ten, and how many more there were. The client
    may have been sent nothing, as it had everything.
    """

    reasons: tuple[str, ...]
    at: datetime
    types: Mapping[str, TypePush]


class ClientStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One stream: its client, since when it is connected, and each type it watches.

    `last_push` is None until a first push has been sent; answers to requests are no push. `behind`:
    a change waits to be sent, or is being sent; when none is and every type is `in_sync`, the
    client has accepted all that there is for it.
    """

    id: str
    node: Node
    identities: tuple[str, ...]
    address: str
    delta: bool
    connected_since: float
    types: Mapping[str, TypeStatus]
    last_push: PushStatus | None = None
    behind: bool = False
