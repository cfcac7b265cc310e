"""Texts that Envoy reads as a language of its own: commands in headers and logs, expressions."""

from istio_config.kinds.formats._commands import OF_TAGS, format_mistake, header_value_mistake

__all__ = [
    "OF_TAGS",
    "format_mistake",
    "header_value_mistake",
]
