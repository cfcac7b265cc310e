"""A response as it goes out: its bytes, and the facts that the server keeps of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response ready to be written."""

    type_url: str
    nonce: str
    data: bytes
    resources: int
    removed: int = 0
