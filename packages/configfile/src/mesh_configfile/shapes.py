"""Checks whether data has the shape of a msgspec type, and finds every difference.

msgspec's decoder stops at the first mistake and describes it in terms of Python's types. Users who
edit YAML want to see all mistakes, in terms of YAML. Data without differences is then decoded by
msgspec, strictly.
"""

import functools
from collections.abc import Iterator
from typing import TypeVar

import msgspec
from msgspec import inspect

from mesh_configfile._document import Value
from mesh_configfile._durations import Duration, DurationBoundsError, DurationError
from mesh_configfile._lines import FieldPath
from mesh_configfile._suggestion import nearest, suggestion

__all__ = ["Finding", "decode", "differences", "fits", "type_info"]

Finding = tuple[FieldPath, str]
_S = TypeVar("_S")


def _decode_hook(wanted: type[object], value: object) -> object:
    """Make values of the types that msgspec does not know."""
    if wanted is Duration and isinstance(value, str):
        return Duration.parse(value)
    raise NotImplementedError(f"no way to read a {wanted.__name__}")


def decode(value: Value, shape: type[_S]) -> _S:
    """Convert data without `differences` to the type `shape`."""
    return msgspec.convert(value, shape, strict=True, dec_hook=_decode_hook)


def differences(
    value: Value, shape: type[msgspec.Struct], path: FieldPath = ()
) -> Iterator[Finding]:
    """Yield the place of each difference from the type, with what would be right.

    Fields that are not there are mistakes where the struct says `forbid_unknown_fields`.
    """
    yield from _check(value, type_info(shape), path)


@functools.cache
def type_info(shape: type[msgspec.Struct]) -> inspect.Type:
    """Return msgspec's description of a type, cached: making it takes longer than using it."""
    return inspect.type_info(shape)


def fits(value: Value, wanted: inspect.Type) -> bool:
    """Return whether data has no difference from a type."""
    return next(_check(value, wanted, ()), None) is None


def _check(  # noqa: PLR0912 - one case for each kind of type
    value: Value, wanted: inspect.Type, path: FieldPath
) -> Iterator[Finding]:
    match wanted:
        case inspect.StructType():
            yield from _struct(value, wanted, path)
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            if isinstance(value, list):
                for index, inner in enumerate(value):
                    yield from _check(inner, item, (*path, index))
            else:
                yield path, f"expected a list, found {_found(value)}"
        case inspect.DictType(value_type=item):
            if isinstance(value, dict):
                for key, inner in value.items():
                    yield from _check(inner, item, (*path, key))
            else:
                yield path, f"expected a mapping, found {_found(value)}"
        case inspect.UnionType(types=types):
            if not (value is None and any(isinstance(t, inspect.NoneType) for t in types)):
                yield from _check(value, _only_type(types), path)
        case _:
            if (wrong := _scalar(value, wanted)) is not None:
                yield path, wrong


def _only_type(types: tuple[inspect.Type, ...]) -> inspect.Type:
    """Return the type X of an `X | None`, the only kind of union in our shapes."""
    (kind,) = (each for each in types if not isinstance(each, inspect.NoneType))
    return kind


def _struct(value: Value, wanted: inspect.StructType, path: FieldPath) -> Iterator[Finding]:
    if not isinstance(value, dict):
        yield path, f"expected a mapping, found {_found(value)}"
        return
    fields = {each.encode_name: each for each in wanted.fields}
    meant = set()
    for key, inner in value.items():
        if (known := fields.get(key)) is None:
            if wanted.forbid_unknown_fields:
                meant.add(nearest(key, fields))
                yield (*path, key), f"unknown field{suggestion(key, fields)}"
        elif _is_duration(known) and _is_number(inner):
            yield (*path, key), f"expected a duration such as {known.default}, {_no_unit(inner)}"
        else:
            yield from _check(inner, known.type, (*path, key))
    for name, each in fields.items():
        if each.required and name not in value and name not in meant:
            yield path, f"the field {name} is missing"


def _scalar(value: Value, wanted: inspect.Type) -> str | None:  # noqa: PLR0911
    match wanted:
        case inspect.AnyType():
            return None
        case inspect.BoolType():
            return None if isinstance(value, bool) else f"expected true or false, {_but(value)}"
        case inspect.IntType(ge=low, le=high):
            return _integer(value, low, high)
        case inspect.FloatType(ge=least, le=most):
            return _number(value, least, most)
        case inspect.StrType(min_length=shortest):
            if not isinstance(value, str):
                return f"expected text, {_but(value)}{_quote_it(value)}"
            return "must not be empty" if shortest and not value else None
        case inspect.EnumType(cls=choices):
            allowed = [str(each.value) for each in choices]
            if value in allowed:
                return None
            return f"expected one of {', '.join(allowed)}, {_but(value)}"
        case inspect.CustomType(cls=cls) if cls is Duration:
            return _duration(value)
    raise TypeError(f"no check for {wanted!r}")


def _is_duration(field: inspect.Field) -> bool:
    """Return whether a text is read as a duration by those who have this shape: its default is one.

    In YAML `60s` is text without quotes, so that quotes would be the wrong advice.
    """
    if not isinstance(field.type, inspect.StrType) or not isinstance(field.default, str):
        return False
    try:
        Duration.parse(field.default)
    except DurationError:
        return False
    return field.default.strip("0") != ""


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _no_unit(value: Value) -> str:
    return f"{_but(value)}; it needs a unit: h, m, s, ms, us or ns"


def _duration(value: Value) -> str | None:
    if _is_number(value):
        return f"expected {Duration.EXPECTED}, {_no_unit(value)}"
    hint = ""
    if isinstance(value, str):
        try:
            Duration.parse(value)
        except DurationBoundsError as error:
            return str(error)
        except DurationError as error:
            hint = error.hint
        else:
            return None
    return f"expected {Duration.EXPECTED}, {_but(value)}{hint}"


def _integer(value: Value, low: int | None, high: int | None) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return f"expected a whole number, {_but(value)}"
    if (low is not None and value < low) or (high is not None and value > high):
        limits = f"from {low} to {high}" if high is not None else f"of at least {low}"
        return f"expected a number {limits}, found {value}"
    return None


def _number(value: Value, low: float | None, high: float | None) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"expected a number, {_but(value)}"
    if (low is not None and value < low) or (high is not None and value > high):
        limits = f"from {low:g} to {high:g}" if high is not None else f"of at least {low:g}"
        return f"expected a number {limits}, found {value}"
    return None


def _but(value: Value) -> str:
    return f"found {_found(value)}"


def _quote_it(value: Value) -> str:
    return "; put it in quotes" if isinstance(value, bool | int | float) else ""


def _found(value: Value) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value}"
        case str():
            return f'the text "{value[:80]}"'
        case list():
            return "a list"
        case dict():
            return "a mapping"
