"""The type of JSON values, and the cleaning that outside data needs before Envoy reads it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from envoy_supervisor._errors import BootstrapError

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"

_SURROGATES = re.compile("[\ud800-\udfff]")
MAX_DEPTH = 32
"""Nesting allowed in outside data. Protobuf's own parsers give up at about 100."""


def clean_json(value: JSON, where: str, depth: int = 0) -> JSON:
    """Return a copy of `value` that is strict JSON, so that Envoy cannot misread or refuse it.

    Text that is not Unicode (lone surrogates, which is how Python shows environment variables
    that are not UTF-8) gets U+FFFD in place of each stray byte. NaN, the infinities and values
    that are no JSON raise `BootstrapError` naming `where`.
    """
    if depth > MAX_DEPTH:
        raise BootstrapError(f"{where} is nested deeper than {MAX_DEPTH} levels")
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise BootstrapError(f"{where} is {value}, which JSON cannot express")
        return value
    if isinstance(value, Mapping):
        return {
            clean_text(str(key)): clean_json(item, f"{where}.{clean_text(str(key))}", depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [
            clean_json(item, f"{where}[{index}]", depth + 1) for index, item in enumerate(value)
        ]
    raise BootstrapError(f"{where} is a {type(value).__name__}, which JSON cannot express")


def clean_text(text: str) -> str:
    """Return the text with U+FFFD in place of lone surrogates."""
    return _SURROGATES.sub("\ufffd", text)
