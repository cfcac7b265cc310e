"""Does plain data have the shape of a msgspec type? Finds every difference, not only the first.

msgspec's decoder stops at the first mistake and names it as a programmer would; people edit YAML
and want all of theirs, in their words. What passes here is then decoded by msgspec, strictly.
"""

import difflib
import functools
import math
from collections.abc import Collection, Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from mesh_discovery._documents import Value
from mesh_discovery._problems import Path

Finding = tuple[Path, str]
_S = TypeVar("_S")


class Duration(float):
    """Seconds, written as Istio does: `10s`, `1.5s`, `100ms`, `1h30m`."""

    __slots__ = ()

    _UNITS = (("ms", 0.001), ("us", 1e-6), ("ns", 1e-9), ("h", 3600.0), ("m", 60.0), ("s", 1.0))

    @classmethod
    def parse(cls, text: str) -> "Duration":
        """Read the text form; raises ValueError."""
        rest, total = text.strip(), 0.0
        if not rest:
            raise ValueError("empty")
        while rest:
            digits = len(rest) - len(rest.lstrip("0123456789."))
            number, rest = rest[:digits], rest[digits:]
            for unit, seconds in cls._UNITS:
                if rest.startswith(unit):
                    total += float(number) * seconds
                    rest = rest[len(unit) :]
                    break
            else:
                raise ValueError(f"no unit in {text!r}")
        if not math.isfinite(total) or total > 10 * 365 * 86400:
            raise ValueError("too long")
        return cls(total)


def decode_hook(wanted: type[Any], value: object) -> object:
    """Make the types that msgspec does not know."""
    if wanted is Duration and isinstance(value, str):
        return Duration.parse(value)
    raise NotImplementedError(f"no way to read a {wanted.__name__}")


def decode(value: Value, shape: type[_S]) -> _S:
    """Make a `shape` of data that `differences` found right."""
    return msgspec.convert(value, shape, strict=True, dec_hook=decode_hook)


def differences(value: Value, shape: type[msgspec.Struct], path: Path = ()) -> Iterator[Finding]:
    """Yield the place of everything that is not as the type says, with what would be right."""
    yield from _check(value, _type_info(shape), path)


@functools.cache
def _type_info(shape: type[msgspec.Struct]) -> inspect.Type:
    """Look a type up once: it takes longer than to check a value with it."""
    return inspect.type_info(shape)


def _check(  # noqa: PLR0912  (one case a kind of type)
    value: Value, wanted: inspect.Type, path: Path
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
    """Return the one type of an `X | None`, the only union that our shapes use."""
    (kind,) = (each for each in types if not isinstance(each, inspect.NoneType))
    return kind


def _struct(value: Value, wanted: inspect.StructType, path: Path) -> Iterator[Finding]:
    if not isinstance(value, dict):
        yield path, f"expected a mapping, found {_found(value)}"
        return
    fields = {each.encode_name: each for each in wanted.fields}
    for key, inner in value.items():
        if (known := fields.get(key)) is None:
            yield (*path, key), f"unknown field{suggestion(key, fields)}"
        else:
            yield from _check(inner, known.type, (*path, key))
    for name, each in fields.items():
        if each.required and name not in value:
            yield path, f"the field {name} is missing"


def suggestion(word: str, known: Collection[str], *, listed: bool = True) -> str:
    """Name the field that was meant, if one is close; else, if `listed`, all there are."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.7)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; known here: {', '.join(sorted(known))}" if listed else ""


def _scalar(value: Value, wanted: inspect.Type) -> str | None:  # noqa: PLR0911
    match wanted:
        case inspect.AnyType():
            return None
        case inspect.BoolType():
            return None if isinstance(value, bool) else f"expected true or false, {_but(value)}"
        case inspect.IntType(ge=low, le=high):
            return _integer(value, low, high)
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
            try:
                Duration.parse(value if isinstance(value, str) else "")
            except ValueError:
                return f"expected a duration such as 10s or 250ms, {_but(value)}"
            return None
    raise TypeError(f"no check for {wanted!r}")


def _integer(value: Value, low: int | None, high: int | None) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return f"expected a whole number, {_but(value)}"
    if (low is not None and value < low) or (high is not None and value > high):
        limits = f"from {low} to {high}" if high is not None else f"of at least {low}"
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
