"""Texts that Envoy reads as a language of its own: commands in headers and logs, expressions."""

from istio_config.kinds.formats._commands import (
    OF_LOGS,
    OF_TAGS,
    format_mistake,
    header_value_mistake,
)
from istio_config.kinds.formats._expressions import ATTRIBUTES, expression_mistake, unknown_names
from istio_config.kinds.formats._metric_tags import metric_tag_format, metric_tag_mistake

__all__ = [
    "ATTRIBUTES",
    "OF_LOGS",
    "OF_TAGS",
    "expression_mistake",
    "format_mistake",
    "header_value_mistake",
    "metric_tag_format",
    "metric_tag_mistake",
    "unknown_names",
]
