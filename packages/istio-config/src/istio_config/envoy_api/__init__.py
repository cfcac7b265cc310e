"""Envoy's API by reflection: types by their names, messages of plain data, and constraints."""

from istio_config.envoy_api._constraints import constraint_mistakes
from istio_config.envoy_api._message_types import TYPED_STRUCTS, content_type, find_type, unpacked
from istio_config.envoy_api._plain_data import message_differences, message_of
from istio_config.envoy_api._upstream_checks import (
    balancing_policy,
    is_ip,
    ring_mistake,
    table_mistake,
)
from istio_config.type_urls import type_in

__all__ = [
    "TYPED_STRUCTS",
    "balancing_policy",
    "constraint_mistakes",
    "content_type",
    "find_type",
    "is_ip",
    "message_differences",
    "message_of",
    "ring_mistake",
    "table_mistake",
    "type_in",
    "unpacked",
]
