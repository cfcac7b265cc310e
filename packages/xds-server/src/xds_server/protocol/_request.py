"""Requests as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from xds_server.protocol._node import Node

NO_VERSIONS: Mapping[str, str] = MappingProxyType({})


class ClientError(msgspec.Struct, frozen=True, kw_only=True):
    """Why a client refused a response."""

    code: int
    message: str


class SotwRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A `DiscoveryRequest`."""

    type_url: str
    names: frozenset[str] = frozenset()
    version: str = ""
    nonce: str = ""
    error: ClientError | None = None


class DeltaRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A `DeltaDiscoveryRequest`."""

    type_url: str
    subscribe: frozenset[str] = frozenset()
    unsubscribe: frozenset[str] = frozenset()
    initial_versions: Mapping[str, str] = NO_VERSIONS
    nonce: str = ""
    error: ClientError | None = None


class Parsed(NamedTuple):
    """A request, and its node, which a client need send in the first request only."""

    request: SotwRequest | DeltaRequest
    node: Node | None
