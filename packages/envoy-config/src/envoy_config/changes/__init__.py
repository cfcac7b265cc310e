"""The difference of two models, as caches need it and as a push request."""

from envoy_config.changes._difference import difference
from envoy_config.changes._touches import (
    BY_HOST,
    ENDPOINTS_ALONE,
    EVERYTHING,
    OF_PATCHES,
    OF_WORKLOADS,
    TOUCHES,
    Changed,
    Part,
    Touches,
)

__all__ = [
    "BY_HOST",
    "Changed",
    "ENDPOINTS_ALONE",
    "EVERYTHING",
    "OF_PATCHES",
    "OF_WORKLOADS",
    "Part",
    "TOUCHES",
    "Touches",
    "difference",
]
