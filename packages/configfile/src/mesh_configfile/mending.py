"""Takes the mistakes out of data, so that what is right beside them can be judged at once.

Data that has not the shape of a msgspec type becomes the nearest that has: what can't be read is
left out, or, where a value has to be, has one that means nothing. Where it has the shape and a
field is wrong all the same, that field is left out. The paths of all such are kept: nothing that is
found at them is to be reported.

Items of lists that are left out move those after them, so paths in what is left are not those of
the document: `restored` makes the one of the other.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec import inspect

from mesh_configfile._document import Value
from mesh_configfile._durations import Duration
from mesh_configfile._lines import FieldPath
from mesh_configfile._suggestion import nearest
from mesh_configfile.shapes import Finding, fits, type_info

__all__ = ["Mended", "Reduced", "mended", "restored", "touches"]

_FILLER = "unread"
"""A text in the place of one that has to be; it is a name and a host."""
_MOST_DEEP = 8
"""Of values that are filled in: a type whose required fields hold it again has none."""


class Mended(NamedTuple):
    """Data of a type that is as the given wherever that is right.

    unread: the fields that are not as given, by the names that are given and that are meant.
    values: those of them whose value could not be read: fields beside them may be right or wrong by
    it.
    """

    value: Value
    unread: tuple[FieldPath, ...]
    values: tuple[FieldPath, ...]


def mended(value: Value, shape: type[msgspec.Struct], path: FieldPath = ()) -> Mended | None:
    """Return data of the type that is near the given; None if that is no mapping.

    path: of the data. A misspelt field or choice counts as the one that is meant, a value that
    can't be read as none, and where one has to be it is filled in.
    """
    mending = _Mending()
    try:
        mended_value = mending.mend(value, type_info(shape), path)
    except _UnmendableError:
        return None
    return Mended(mended_value, tuple(mending.unread), tuple(mending.values))


class _UnmendableError(Exception):
    """Raised when there is no data of a type near the given."""


class _Mending:
    """Makes data of a type, and remembers where it is not the given."""

    def __init__(self) -> None:
        self.unread: list[FieldPath] = []
        self.values: list[FieldPath] = []
        """Those of them that are there and have no value, or another, by which others may go."""

    def mend(self, value: Value, wanted: inspect.Type, path: FieldPath) -> Value:
        """Return data of the type; raises `_UnmendableError`."""
        match wanted:
            case inspect.StructType() if isinstance(value, dict):
                return self._struct(value, wanted, path)
            case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item) if (
                isinstance(value, list)
            ):
                return [self._item(each, item, (*path, at)) for at, each in enumerate(value)]
            case inspect.DictType(value_type=item) if isinstance(value, dict):
                return self._mapping(value, item, path)
            case inspect.UnionType(types=types):
                if value is None:
                    return None
                (kind,) = (each for each in types if not isinstance(each, inspect.NoneType))
                return self.mend(value, kind, path)
            case inspect.EnumType(cls=choices):
                known = {str(each.value) for each in choices}
                self.values.append(path)
                if isinstance(value, str) and (meant := nearest(value, known)) is not None:
                    self.unread.append(path)
                    return meant
                raise _UnmendableError
            case _:
                self.values.append(path)
                raise _UnmendableError

    def _struct(
        self, value: dict[str, Value], wanted: inspect.StructType, path: FieldPath
    ) -> Value:
        fields = {each.encode_name: each for each in wanted.fields}
        kept: dict[str, Value] = {}
        for key, inner in value.items():
            name = key
            if key not in fields:
                if not wanted.forbid_unknown_fields:
                    kept[key] = inner
                    continue
                # What is misspelt is judged as what is meant: others may refer to it.
                self.unread.append((*path, key))
                meant = nearest(key, fields)
                if meant is None or meant in value or meant in kept:
                    continue
                name = meant
                self.unread.append((*path, name))
            field = fields[name]
            try:
                kept[name] = self._fitting(inner, field.type, (*path, key))
            except _UnmendableError:
                self.unread.append((*path, key))
                if field.required:
                    kept[name] = _filler(field.type)
        for name, field in fields.items():
            if field.required and name not in kept:
                self.unread.append((*path, name))
                kept[name] = _filler(field.type)
        return kept

    def _mapping(self, value: dict[str, Value], item: inspect.Type, path: FieldPath) -> Value:
        items: dict[str, Value] = {}
        for key, inner in value.items():
            try:
                items[key] = self._fitting(inner, item, (*path, key))
            except _UnmendableError:
                self.unread.append((*path, key))
        return items

    def _item(self, value: Value, wanted: inspect.Type, path: FieldPath) -> Value:
        """Return an item of a list: none is left out, as that would move the others."""
        try:
            return self._fitting(value, wanted, path)
        except _UnmendableError:
            self.unread.append(path)
            return _filler(wanted)

    def _fitting(self, value: Value, wanted: inspect.Type, path: FieldPath) -> Value:
        return value if fits(value, wanted) else self.mend(value, wanted, path)


def _filler(wanted: inspect.Type, depth: int = 0) -> Value:  # noqa: PLR0911
    """Return the least value of a type; raises `_UnmendableError`."""
    if depth > _MOST_DEEP:
        raise _UnmendableError
    match wanted:
        case inspect.StructType(fields=fields):
            return {
                each.encode_name: _filler(each.type, depth + 1) for each in fields if each.required
            }
        case inspect.ListType() | inspect.VarTupleType():
            return []
        case inspect.DictType():
            return {}
        case inspect.UnionType() | inspect.AnyType():
            return None
        case inspect.BoolType():
            return False
        case inspect.IntType(ge=low) | inspect.FloatType(ge=low):
            return low if low is not None else 0
        case inspect.StrType():
            return _FILLER
        case inspect.EnumType(cls=choices):
            return str(next(iter(choices)).value)
        case inspect.CustomType(cls=cls) if cls is Duration:
            return "1s"
    raise _UnmendableError


def touches(path: FieldPath, unread: Iterable[FieldPath]) -> bool:
    """Return whether a field is one of those that were not read, in one, or around one."""
    return any(path[: len(each)] == each or each[: len(path)] == path for each in unread)


def restored(path: FieldPath, left_out: Sequence[FieldPath]) -> FieldPath:
    """Return the path in the document of a field of what is left; left_out: the items that are not.

    Shorter paths come first: those of lists in other lists are found by the document's indices.
    """
    for each in sorted(left_out, key=lambda each: (len(each), each[-1])):
        at = len(each) - 1
        here = path[at] if len(path) > at and path[:at] == each[:at] else None
        if isinstance(here, int) and isinstance(each[-1], int) and here >= each[-1]:
            path = (*path[:at], here + 1, *path[at + 1 :])
    return path


_MOST_LEFT_OUT = 100
"""After each the rest is judged again, which takes as long as it is large."""


class Reduced:
    """The body of a document, from which mistakes are taken.

    unread: the fields that are not as they stand. values: those whose value could not be
    read. left_out: items of lists that are not there. All by their paths in the document.
    """

    def __init__(self, value: Value) -> None:
        self.value = value
        self.unread: list[FieldPath] = []
        self.values: list[FieldPath] = []
        self.left_out: list[FieldPath] = []
        self._tried: set[FieldPath] = set()

    def mend(self, shape: type[msgspec.Struct]) -> bool:
        """Make the value one that has the shape; return whether that can be done."""
        near = mended(self.value, shape)
        if near is None:
            return False
        self.value = near.value
        self.unread += (restored(each, self.left_out) for each in near.unread)
        self.values += (restored(each, self.left_out) for each in near.values)
        return True

    def leave_out(self, path: FieldPath) -> bool:
        """Leave out a field of what is left, or, if that was done before, what is around it.

        Returns whether anything could be left out.
        """
        inside, whole = path, restored(path, self.left_out)
        while whole and whole in self._tried:
            inside, whole = inside[:-1], whole[:-1]
        if not whole or len(self._tried) == _MOST_LEFT_OUT:
            return False
        self._tried.add(whole)
        self.value = _without(self.value, inside)
        self.unread.append(whole)
        if isinstance(whole[-1], int):
            self.left_out.append(whole)
        return True

    def untouched(self, found: Iterable[Finding]) -> Iterator[Finding]:
        """Yield what was found in what is left and has nothing to do with a mistake."""
        for inside, text in found:
            path = restored(inside, self.left_out)
            if not touches(path, self.unread):
                yield path, text


def _without(value: Value, path: FieldPath) -> Value:
    """Return data without a field or an item of a list."""
    first, *rest = path
    if isinstance(value, dict) and isinstance(first, str) and first in value:
        if rest:
            return {**value, first: _without(value[first], tuple(rest))}
        return {key: each for key, each in value.items() if key != first}
    if isinstance(value, list) and isinstance(first, int) and first < len(value):
        inner = [_without(value[first], tuple(rest))] if rest else []
        return [*value[:first], *inner, *value[first + 1 :]]
    return value
