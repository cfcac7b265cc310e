"""The filter that stands in for one whose module cannot be had: it lets all pass, or nothing.

https://www.envoyproxy.io/docs/envoy/latest/api-v3/extensions/filters/http/rbac/v3/rbac.proto
"""

from __future__ import annotations

from enum import StrEnum

from mesh_protowire import Packed, bytes_field, string_field

_HTTP_RBAC = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC"
_NETWORK_RBAC = "type.googleapis.com/envoy.extensions.filters.network.rbac.v3.RBAC"
_RULES = 1
_STAT_PREFIX = 3
_STATS = "wasm_module_missing"
_NO_POLICY = b""
"""`config.rbac.v3.RBAC` with action ALLOW, for those whom a policy names; there is none."""


class FilterKind(StrEnum):
    """Where a Wasm filter stands in Envoy."""

    HTTP = "envoy.extensions.filters.http.wasm.v3.Wasm"
    NETWORK = "envoy.extensions.filters.network.wasm.v3.Wasm"


def fallback(kind: FilterKind, *, open_: bool) -> Packed:
    """Return an RBAC filter; open_: it allows all, by having no rules; else it denies all."""
    rules = b"" if open_ else bytes_field(_RULES, _NO_POLICY)
    if kind is FilterKind.HTTP:
        return Packed(_HTTP_RBAC, rules)
    return Packed(_NETWORK_RBAC, rules + string_field(_STAT_PREFIX, _STATS))
