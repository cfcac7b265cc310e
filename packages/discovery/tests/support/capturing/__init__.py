"""Machines whose connections are led to real Envoys, for tests of interception."""

from capturing._calls import Reply, dial, exchange, get, get_http2, line
from capturing._lab import CaptureLab, Machine, capture_lab
from capturing._namespaces import why_not
from capturing._wire import Wire

__all__ = [
    "CaptureLab",
    "Machine",
    "Reply",
    "Wire",
    "capture_lab",
    "dial",
    "exchange",
    "get",
    "get_http2",
    "line",
    "why_not",
]
