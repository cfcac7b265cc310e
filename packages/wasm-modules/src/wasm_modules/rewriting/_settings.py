"""The statements of a Wasm filter about its module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """The remote module of a filter.

    url: empty if none is named.
    timeout_s: None: not given.
    """

    url: str
    checksum: str
    timeout_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The statements of a filter about its module.

    remote: None for a module that Envoy has, or that is inside.
    environment: the variables that have values.
    fail_open: without the module, requests pass.
    """

    remote: Remote | None
    environment: Mapping[str, str] = field(repr=False)
    fail_open: bool
