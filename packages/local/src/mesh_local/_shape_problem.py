"""What msgspec says of a file's shape, in the words of those who write such files."""

import difflib
import re
from enum import StrEnum
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from mesh_local._errors import Problem
from mesh_local._shapes import MeshShape
from mesh_local._yaml import FieldPath, Located, spelled

_UNKNOWN = re.compile(r"Object contains unknown field `(.*?)`")
_MISSING = re.compile(r"Object missing required field `(.*?)`")
_STEP = re.compile(r"\.([A-Za-z_]\w*)|\[(\d+|\.\.\.)\]")


def shape_problem(complaint: str, document: Located) -> Problem:
    """Put msgspec's complaint in a user's words: its place is a path like `$.workloads[0].name`.

    Only the wording depends on the text; that there is a mistake was msgspec's decision.
    """
    message, _, place = complaint.partition(" - at `")
    path: FieldPath = tuple(
        name or (int(index) if index != "..." else "...") for name, index in _STEP.findall(place)
    )
    if unknown := _UNKNOWN.fullmatch(message):
        known = _known_fields(path)
        close = difflib.get_close_matches(unknown[1], known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}"
        path, message = (*path, unknown[1]), f"unknown field; {hint}"
    elif missing := _MISSING.fullmatch(message):
        message = f"the field {missing[1]} is missing"
    elif message.startswith("Invalid enum value"):
        message = f"expected one of {', '.join(_choices(path))}, found {_said(document, path)}"
    else:
        message = message.replace("`", "").replace("Expected", "expected")
        message = message.replace("array", "list").replace("object", "mapping")
    return Problem(line=document.line_of(path), field=spelled(path), message=message)


def _said(document: Located, path: FieldPath) -> str:
    value = document.value
    for part in path:
        value = value[part]
    return f'"{value}"'


def _choices(path: FieldPath) -> list[str]:
    """Name the values that a mesh file may have at this place."""
    shape = _shape_at(path)
    if not (isinstance(shape, type) and issubclass(shape, StrEnum)):
        return []
    return [each.value for each in shape]


def _known_fields(path: FieldPath) -> list[str]:
    """Name the fields that a mesh file may have at this place."""
    shape = _shape_at(path)
    if not (isinstance(shape, type) and issubclass(shape, msgspec.Struct)):
        return []
    return sorted(each.encode_name for each in msgspec.structs.fields(shape))


def _shape_at(path: FieldPath) -> Any:
    """Return the type of what stands at this place of a mesh file; None when it has none."""
    shape: Any = MeshShape
    for part in path:
        if isinstance(part, int):
            shape = get_args(shape)[0]
        elif isinstance(shape, type) and issubclass(shape, msgspec.Struct):
            fields = {each.encode_name: each.name for each in msgspec.structs.fields(shape)}
            shape = get_type_hints(shape)[fields[part]]
        if get_origin(shape) is None and not isinstance(shape, type):
            return None
    return shape
