"""The statuses of HTTP and gRPC, and the conditions of retries that Envoy knows.

Sources: RFC 9110; gRPC's status codes; Envoy's documentation of `x-envoy-retry-on` and
`x-envoy-retry-grpc-on`.
"""

REDIRECT_CODES = (301, 302, 303, 307, 308)
"""Envoy has no others: a route with one would have no action, and its table be refused."""

GRPC_STATUSES = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)
"""Each at the place of its number."""

RETRY_CONDITIONS = (
    "5xx",
    "gateway-error",
    "reset",
    "reset-before-request",
    "connect-failure",
    "retriable-4xx",
    "refused-stream",
    "retriable-status-codes",
    "retriable-headers",
    "envoy-ratelimited",
    "http3-post-connect-failure",
    "cancelled",
    "deadline-exceeded",
    "internal",
    "resource-exhausted",
    "unavailable",
)


def is_http_status(status: int) -> bool:
    """Return whether Envoy can answer with this status."""
    return 200 <= status <= 599
