"""Reads a text with one document, in JSON or YAML.

Most configuration of programs is JSON, and the YAML library takes memory and time to load. So it is
not loaded if the text is strict JSON and no line is requested.
"""

import json
import math
from typing import TYPE_CHECKING, NoReturn

from mesh_configfile._document import Document, Value

if TYPE_CHECKING:
    from mesh_configfile._lines import Lines
    from mesh_configfile._problems import Problem

_MAX_JSON_CHARACTERS = 8 * 1024 * 1024
_MAX_JSON_DEPTH = 64


def read_document(source: str | bytes, *, file: str) -> tuple[Document, "tuple[Problem, ...]"]:
    """Read the one document of a text; without one, or with problems, its value is None.

    file: its name in problems. Loads the YAML library only if the text is not JSON.
    """
    if not source.strip():
        return Document(None, file=file, lines=_first_line), ()
    if isinstance(source, str) and source.lstrip().startswith(("{", "[")):
        try:
            return _read_json(source, file), ()
        except ValueError:
            pass  # the YAML reader has the line, and what would be right
    from mesh_configfile._yaml import read_documents

    documents, problems = read_documents(source, file=file)
    if len(documents) > 1:
        problems = (
            *problems,
            documents[1].problem((), "only one document can stand here; remove the --- before it"),
        )
    if problems or not documents:
        return Document(None, file=file, lines=_first_line), problems
    return documents[0], ()


def _read_json(text: str, file: str) -> Document:
    if len(text) > _MAX_JSON_CHARACTERS:
        raise ValueError("too large")
    try:
        value: Value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_no_number, parse_float=_finite
        )
        text.encode()
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # raises for half of a surrogate pair
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if _depth(value) > _MAX_JSON_DEPTH:
        raise ValueError("nested too deeply")

    def lines() -> "Lines":
        from mesh_configfile._yaml import read_lines

        return read_lines(text)

    return Document(value, file=file, lines=lines)


def _object(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a field is given twice")
    return value


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is more than a number can be")
    return value


def _depth(value: Value) -> int:
    depth, level = 0, [value]
    while level := [each for each in level if isinstance(each, dict | list)]:
        depth += 1
        level = [
            inner for each in level for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return depth


def _first_line() -> "Lines":
    from mesh_configfile._lines import Lines

    return Lines(1)
