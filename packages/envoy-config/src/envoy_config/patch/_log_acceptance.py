"""Finds what Envoy refuses in the lines of logs and of replies in a patched listener.

Seen with Envoy 1.36 and 1.40.
"""

from collections.abc import Iterable, Iterator
from typing import Any as Unchecked

from envoy.config.core.v3 import substitution_format_string_pb2
from google.protobuf.struct_pb2 import Struct, Value

from istio_config.envoy_api import unpacked
from istio_config.kinds.formats import OF_TAGS, format_mistake

_Line = substitution_format_string_pb2.SubstitutionFormatString


def log_mistakes(logs: Iterable[Unchecked]) -> Iterator[str]:
    """Yield what Envoy refuses in the lines of access logs."""
    for each in logs:
        config = unpacked(each.typed_config) if each.HasField("typed_config") else None
        line = getattr(config, "log_format", None)
        if isinstance(line, _Line):
            yield from line_mistakes(line)
        older = (getattr(config, name, "") for name in ("format", "json_format"))
        for text in older:
            yield from _of_value(text)


def line_mistakes(line: _Line) -> Iterator[str]:
    """Yield what Envoy refuses in a line of text or of JSON."""
    if line.formatters:
        return  # they bring commands of their own
    yield from _text_mistakes(line.text_format)
    yield from _text_mistakes(line.text_format_source.inline_string)
    yield from _of_value(line.json_format)


def _of_value(value: object) -> Iterator[str]:
    """Look into the texts of a line of JSON."""
    if isinstance(value, str):
        yield from _text_mistakes(value)
    elif isinstance(value, Struct):
        for each in value.fields.values():
            yield from _of_value(each)
    elif isinstance(value, Value):
        kind = value.WhichOneof("kind")
        if kind == "string_value":
            yield from _text_mistakes(value.string_value)
        elif kind == "struct_value":
            yield from _of_value(value.struct_value)
        elif kind == "list_value":
            for each in value.list_value.values:
                yield from _of_value(each)


def _text_mistakes(text: str) -> Iterator[str]:
    wrong = format_mistake(text, OF_TAGS)
    if wrong is not None:
        yield f"a line of a log or of a reply {wrong}"
