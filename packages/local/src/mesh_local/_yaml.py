"""A YAML text as plain values whose every field knows its line.

libyaml builds the tree, but only after its events were counted: its composer recurses in C, and
aliases would let a small file become a large one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

FieldPath = tuple[str | int, ...]

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 32


class YamlError(Exception):
    """Text that is no usable YAML, with the line (from 1) of the mistake."""

    def __init__(self, message: str, *, line: int, field: FieldPath = ()) -> None:
        super().__init__(message)
        self.line = line
        self.field = field


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A document and the line of each field in it."""

    value: Any
    lines: Mapping[FieldPath, int]

    def line_of(self, path: FieldPath) -> int:
        """Return the line of this field, or of the nearest thing around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def spelled(path: FieldPath) -> str:
    """Spell a path as people do: `workloads[0].ports[1].port`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def read_yaml(text: str) -> Located:
    """Read a file's one document; raises `YamlError`."""
    if len(text) > MAX_BYTES:
        raise YamlError(f"larger than {MAX_BYTES} bytes", line=1)
    try:
        _check_events(text)
        node = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = ", ".join(filter(None, (error.context, error.problem)))
        raise YamlError(
            f"not valid YAML: {what}", line=mark.line + 1 if mark is not None else 1
        ) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlError(f"not valid YAML: {error.reason}", line=line) from None
    lines: dict[FieldPath, int] = {}
    value = None if node is None else _value(node, (), lines)
    return Located(value=value, lines=lines)


def _check_events(text: str) -> None:
    depth = documents = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        line = event.start_mark.line + 1 if event.start_mark is not None else 1
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise YamlError("a mesh file is one document; remove the ---", line=line)
        elif isinstance(event, yaml.AliasEvent):
            raise YamlError("aliases (*name) are not read here; write it out", line=line)
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise YamlError(f"nested deeper than {MAX_DEPTH} levels", line=line)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


_CONSTRUCTOR = yaml.constructor.SafeConstructor()


def _value(node: yaml.Node, path: FieldPath, lines: dict[FieldPath, int]) -> object:
    line = node.start_mark.line + 1
    lines.setdefault(path, line)
    match node:
        case yaml.SequenceNode():
            return [_value(each, (*path, index), lines) for index, each in enumerate(node.value)]
        case yaml.MappingNode():
            found: dict[str, object] = {}
            for key_node, value_node in node.value:
                key = _key(key_node, path)
                key_line = key_node.start_mark.line + 1
                if key in found:
                    first = lines[(*path, key)]
                    raise YamlError(
                        f"given twice, first on line {first}: keep one",
                        line=key_line,
                        field=(*path, key),
                    )
                lines[(*path, key)] = key_line
                found[key] = _value(value_node, (*path, key), lines)
            return found
        case _:
            return _scalar(node, path, line)


def _key(node: yaml.Node, path: FieldPath) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise YamlError(
            "a field's name must be plain text", line=node.start_mark.line + 1, field=path
        )
    return str(node.value)


def _scalar(node: yaml.Node, path: FieldPath, line: int) -> object:
    if node.tag == "tag:yaml.org,2002:timestamp":
        return node.value
    try:
        value: object = _CONSTRUCTOR.construct_object(node)
    except (yaml.YAMLError, ValueError):
        raise YamlError(f"{node.value!r} does not fit its tag", line=line, field=path) from None
    return value
