"""Fields have the types that they are annotated with: checked when a configuration is constructed.

A static checker says so before; but where none runs, a wrong type can mean something else in
silence: a text where a path is expected is not the path, and 3600 is no duration. Texts become
paths, as everywhere in Python; all else of another type is refused, as are durations that are
negative or no number.
"""

import math
import os
import re
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, TypeVar

_MODULE = re.compile(r"\b\w+\.")
_PATHS = "tuple[Path, ...]"
_CHECKED = frozenset({"Path", "SpiffeId", "timedelta", "float", "int", "str", "bool", _PATHS})
_EXAMPLES = {
    "Path": "a path",
    _PATHS: "a tuple of paths",
    "SpiffeId": "a SpiffeId, such as SpiffeId.parse('spiffe://cluster.local/ns/a/sa/b')",
    "timedelta": "a timedelta, such as timedelta(hours=1)",
    "float": "a number",
    "int": "a whole number",
    "str": "a text",
    "bool": "True or False",
}

Config = TypeVar("Config", bound=object)


class _Field(NamedTuple):
    """A field and the names of the types that it may have."""

    name: str
    types: tuple[str, ...]


class _Fields(NamedTuple):
    """The fields of a class: those whose type is checked, and the names of the others."""

    checked: tuple[_Field, ...]
    others: tuple[str, ...]


_fields: dict[type, _Fields] = {}


def check_fields(config: object, *, error: type[Exception] = ValueError) -> None:
    """Convert the texts of a dataclass or a Struct to paths, and check all fields.

    For `__post_init__`. Raises TypeError for another type, and `error` for a path that is empty or
    begins with `~`, a number that is none, and a duration below zero; both name the field.
    """
    for name, value in _converted(config, error).items():
        if hasattr(config, "__struct_fields__"):
            # It is there, as it defined the class; this package does not depend on it.
            import_module("msgspec.structs").force_setattr(config, name, value)
        else:
            object.__setattr__(config, name, value)


def with_checked_fields(config: Config, *, error: type[Exception] = ValueError) -> Config:
    """Return a NamedTuple, which has no `__post_init__`, with paths and checked as above."""
    changed = _converted(config, error)
    return config._replace(**changed) if changed else config  # type: ignore[attr-defined]


def _converted(config: object, error: type[Exception]) -> dict[str, object]:
    changed: dict[str, object] = {}
    kind = type(config)
    fields = _fields.get(kind)
    if fields is None:
        fields = _fields[kind] = _fields_of(kind)
    for name, types in fields.checked:
        value = getattr(config, name)
        if value is None and "None" in types:
            continue
        if "Path" in types and "str" not in types and isinstance(value, str | os.PathLike):
            path = _path(name, value, error)
            if path is not value:
                changed[name] = path
        elif _PATHS in types and isinstance(value, tuple | list):
            changed[name] = tuple(_path(name, each, error) for each in value)
        elif not _is_one_of(value, types):
            raise TypeError(_refusal(kind, name, value, types))
        else:
            _check_amount(kind, name, value, error)
    for name in fields.others:
        value = getattr(config, name, None)
        # NamedTuples, such as limits, are not checked when they are constructed.
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            checked = with_checked_fields(value, error=error)
            if checked is not value:
                changed[name] = checked
    return changed


def _path(name: str, value: object, error: type[Exception]) -> Path:
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name} is {value!r}; it should be a path")
    text = os.fspath(value)
    if not isinstance(text, str):
        raise TypeError(f"{name} is {value!r}; it should be a path of text, not of bytes")
    if not text or "\0" in text:
        raise error(f"{name} is {text!r}; it should be a path")
    if text.startswith("~"):
        raise error(f"{name} is {text!r}; ~ is only known to a shell: write the whole path")
    return value if isinstance(value, Path) else Path(text)


def _is_one_of(value: object, types: tuple[str, ...]) -> bool:
    if isinstance(value, bool):
        return "bool" in types
    if isinstance(value, int) and "float" in types:
        return True
    return any(each.__name__ in types for each in type(value).__mro__)


def _check_amount(kind: type, name: str, value: object, error: type[Exception]) -> None:
    if isinstance(value, float) and math.isnan(value):
        raise error(f"{name} of {kind.__name__} is NaN; it should be a number")
    duration = isinstance(value, timedelta) or (
        isinstance(value, int | float) and name.endswith("_s")
    )
    if duration and value < type(value)():  # type: ignore[operator]
        raise error(f"{name} of {kind.__name__} is {value}; it should not be negative")


def _refusal(kind: type, name: str, value: object, types: tuple[str, ...]) -> str:
    wanted = " or ".join(_EXAMPLES.get(each, each) for each in types)
    return f"{name} of {kind.__name__} is {value!r}; it should be {wanted}"


def _fields_of(kind: type) -> _Fields:
    """Return the fields, by whether they have a type to check.

    Annotations are read as text: to evaluate them, modules would have to import at run time what
    they need for annotations only.
    """
    checked, others = [], []
    for name, annotation in _annotations(kind).items():
        types = tuple(each.strip() for each in _text(annotation).split("|"))
        whole = all("[" not in each or each == _PATHS for each in types)
        if whole and not _CHECKED.isdisjoint(types):
            checked.append(_Field(name, types))
        else:
            others.append(name)
    return _Fields(tuple(checked), tuple(others))


def _annotations(kind: type) -> dict[str, object]:
    found: dict[str, object] = {}
    for each in reversed(kind.__mro__):
        found |= getattr(each, "__annotations__", {})
    return found


def _text(annotation: object) -> str:
    if isinstance(annotation, str):
        return annotation
    if hasattr(annotation, "__forward_arg__"):  # as a NamedTuple has them
        return str(annotation.__forward_arg__)
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        return annotation.__name__
    return _MODULE.sub("", str(annotation))
