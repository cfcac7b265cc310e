"""Totals of the relay, for metrics."""

from __future__ import annotations

import msgspec


class Counters(msgspec.Struct, kw_only=True):
    """Totals since the relay started."""

    requests: int = 0
    """from Envoy to the control plane"""
    responses: int = 0
    """from the control plane, forwarded or given to an interceptor"""
    connection_failures: int = 0
    """streams that ended before the control plane's first answer"""
    control_plane_ended: int = 0
    """streams that the control plane ended in an ordinary way"""
    control_plane_failed: int = 0
    """streams that the control plane, or the connection to it, ended with an error"""
    control_plane_not_reading: int = 0
    """streams ended because the control plane did not read its requests"""
    envoy_not_reading: int = 0
    """connections of Envoy ended because it did not read its responses"""
    crowded_out: int = 0
    """streams of Envoy ended because there were too many at once"""
    envoy_ended: int = 0
    """streams that Envoy ended"""
    refused: int = 0
    """responses that Envoy refused, or that an interceptor did"""
    stale_starts: int = 0
    """Envoys that were given saved configuration, as no control plane answered"""
    last_good_given: int = 0
    """refused resources in whose place an Envoy got the last good version"""
    passed_calls: int = 0
    """calls of other services that Envoy began, and that passed to the control plane"""
    beyond_limit: int = 0
    """streams that the relay ended for a response that is larger than it takes"""
    dropped: int = 0
    """responses of a type that neither Envoy nor the agent understands"""
