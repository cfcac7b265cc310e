"""Checks of single values by the constraints of Envoy's API (`validate/validate.proto`)."""

import re
from collections.abc import Callable
from typing import Any as Unchecked
from typing import TypeAlias

import re2
from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from validate import validate_pb2

Check: TypeAlias = Callable[[Unchecked], str | None]
"""Returns what is wrong with a value, or None."""
TypeCheck: TypeAlias = Callable[[Unchecked], tuple[str, str] | None]
"""Returns the field of a message that is wrong, and what is wrong with it."""

_NUMBERS = frozenset(
    {
        *("float", "double", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
        *("fixed32", "fixed64", "sfixed32", "sfixed64"),
    }
)
_HEADER_NAME = re.compile(r":?[0-9a-zA-Z!#$%&'*+\-.^_|~`]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_LINE_BREAK = re.compile(r"[\x00\r\n]")


def both(first: Check | None, second: Check) -> Check:
    """Return the check of one check and another."""
    if first is None:
        return second
    before = first
    return lambda value: before(value) or second(value)


def of_keys(check: Check) -> Check:
    """Return the check of the keys of a mapping."""
    return lambda value: next((wrong for key in value if (wrong := check(key)) is not None), None)


def of_wrapper(check: Check) -> Check:
    """Return the check of a value in a wrapper, such as `UInt32Value`."""
    return lambda wrapper: check(wrapper.value)


def not_negative(value: Unchecked) -> str | None:
    """Refuse a negative duration, which Envoy accepts nowhere, also where no constraint says so."""
    return "must not be negative" if value.seconds < 0 or value.nanos < 0 else None


def list_check(rules: Unchecked) -> Check | None:
    """Return the check of a list as a whole, if there is one."""
    least, most = rules.min_items, rules.max_items
    if not (least or most or rules.unique):
        return None
    size = size_check(least, most)

    def check(values: Unchecked) -> str | None:
        if rules.ignore_empty and not values:
            return None
        if size is not None and (wrong := size(values)) is not None:
            return wrong
        if rules.unique and len(set(values)) < len(values):
            return "has a value twice"
        return None

    return check


def size_check(least: int, most: int) -> Check | None:
    """Return the check of the size of a list, a mapping or bytes, if there is one."""
    if not (least or most):
        return None

    def check(values: Unchecked) -> str | None:
        if len(values) < least:
            return "is missing" if least == 1 else f"needs {least} at least"
        if most and len(values) > most:
            return f"may have {most} at most"
        return None

    return check


def value_check(  # noqa: PLR0911 - one for each kind of values
    rules: Unchecked, field: FieldDescriptor
) -> Check | None:
    """Return the check of single values of a field, if there is one."""
    kind = rules.WhichOneof("type")
    if kind in _NUMBERS:
        return _number_check(getattr(rules, kind))
    if kind == "string":
        return _text_check(rules.string)
    if kind == "bytes":
        return size_check(rules.bytes.min_len, rules.bytes.max_len)
    if kind == "duration":
        return _duration_check(rules.duration)
    if kind == "enum" and field.enum_type is not None:
        return _enum_check(rules.enum, field.enum_type)
    if kind == "bool" and rules.bool.HasField("const"):
        wanted = rules.bool.const
        return lambda value: None if value == wanted else f"must be {str(wanted).lower()}"
    return None


def _number_check(rules: Unchecked) -> Check:
    bounds = _bounds(rules, float)
    if not rules.ignore_empty:
        return bounds
    return lambda value: None if value == 0 else bounds(value)


def _duration_check(rules: Unchecked) -> Check:
    return _bounds(rules, lambda value: value.seconds + value.nanos / 1e9, unit="s")


def _bounds(rules: Unchecked, plain: Callable[[Unchecked], float], unit: str = "") -> Check:
    limits: list[tuple[str, Callable[[float, float], bool], float]] = []
    for name, word, holds in (
        ("gt", "more than", lambda value, limit: value > limit),
        ("gte", "at least", lambda value, limit: value >= limit),
        ("lt", "less than", lambda value, limit: value < limit),
        ("lte", "at most", lambda value, limit: value <= limit),
    ):
        if rules.HasField(name):
            limits.append((word, holds, plain(getattr(rules, name))))

    def check(value: Unchecked) -> str | None:
        number = plain(value)
        for word, holds, limit in limits:
            if not holds(number, limit):
                return f"must be {word} {limit:g}{unit}, found {number:g}{unit}"
        return None

    return check


def _enum_check(rules: Unchecked, enum: EnumDescriptor) -> Check:
    known = {each.number: each.name for each in enum.values}
    defined_only, excluded = rules.defined_only, frozenset(rules.not_in)

    def check(value: int) -> str | None:
        if (defined_only and value not in known) or value in excluded:
            allowed = (name for number, name in known.items() if number not in excluded)
            return f"must be one of {', '.join(allowed)}"
        return None

    return check


def _text_check(rules: Unchecked) -> Check:
    # Read once: reading a message takes longer than comparing a text.
    pattern = re2.compile(rules.pattern) if rules.pattern else None
    name = rules.well_known_regex == validate_pb2.KnownRegex.HTTP_HEADER_NAME
    of_header = rules.well_known_regex == validate_pb2.KnownRegex.HTTP_HEADER_VALUE
    strict = rules.strict if rules.HasField("strict") else True
    least, least_bytes, ignored = rules.min_len, rules.min_bytes, rules.ignore_empty
    most, most_bytes = rules.max_len, rules.max_bytes
    # A list of choices may have "" among them, as RateLimit.request_type does.
    prefix, suffix, allowed = rules.prefix, rules.suffix, tuple(getattr(rules, "in"))

    def check(value: str) -> str | None:  # noqa: PLR0911
        if not value:
            of_choices = allowed and "" not in allowed
            needed = least or least_bytes or of_choices or (pattern and not pattern.search(""))
            return "is missing" if needed and not ignored else None
        if len(value) < least or len(value.encode()) < least_bytes:
            return "is too short"
        if most and len(value) > most:
            return f"may have {most} characters at most"
        if most_bytes and len(value.encode()) > most_bytes:
            return f"may have {most_bytes} bytes at most"
        if pattern is not None and pattern.search(value) is None:
            return f"must match {rules.pattern}"
        if not value.startswith(prefix):
            return f'must begin with "{prefix}"'
        if not value.endswith(suffix):
            return f'must end with "{suffix}"'
        if allowed and value not in allowed:
            return f"must be one of {', '.join(allowed)}"
        if name:
            refused = not _HEADER_NAME.fullmatch(value) if strict else _LINE_BREAK.search(value)
            return "is no name of a header" if refused else None
        if of_header and (_CONTROL if strict else _LINE_BREAK).search(value):
            return "has characters that headers can't have"
        return None

    return check
