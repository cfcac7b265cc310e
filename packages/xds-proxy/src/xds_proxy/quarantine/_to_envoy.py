"""The responses that wait for their turn to be written to Envoy, and the places of parts."""

from __future__ import annotations

from typing import NamedTuple

from xds_proxy.protocol._dialect import Response


class ToEnvoy(NamedTuple):
    """A response that Envoy gets next. shown: as Envoy gets it, but for its nonce."""

    raw: bytes
    peeked: Response
    generation: int
    shown: bytes


class PartsOf(NamedTuple):
    """In the row of the responses to Envoy: the place of the parts that wait of a type."""

    type_url: str
