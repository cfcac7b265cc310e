"""Requests as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from xds_server.protocol._node import Node

NO_VERSIONS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientError:
    """Why a client refused a response."""

    code: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SotwRequest:
    """A `DiscoveryRequest`."""

    type_url: str
    names: frozenset[str] = frozenset()
    version: str = ""
    nonce: str = ""
    error: ClientError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaRequest:
    """A `DeltaDiscoveryRequest`."""

    type_url: str
    subscribe: frozenset[str] = frozenset()
    unsubscribe: frozenset[str] = frozenset()
    initial_versions: Mapping[str, str] = field(default_factory=lambda: NO_VERSIONS)
    nonce: str = ""
    error: ClientError | None = None


class Parsed(NamedTuple):
    """A request, and its node, which a client need send in the first request only."""

    request: SotwRequest | DeltaRequest
    node: Node | None
