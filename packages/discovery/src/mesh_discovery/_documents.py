"""YAML text as plain values whose every field knows its line.

Read from libyaml's events with an own stack: PyYAML's composer recurses in C and dies of deep
nesting, keeps the last of two equal keys in silence, and follows aliases without limit.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from mesh_discovery._problems import Path, Problem, field_name

MAX_DEPTH = 64
MAX_VALUES = 200_000
MAX_BYTES = 8 * 1024 * 1024

Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One YAML document; `lines` has an entry (from 1) for each value and key."""

    value: Value
    line: int
    lines: dict[Path, int]

    def line_of(self, path: Path) -> int:
        """Return the line of this field, or of the nearest thing around it."""
        while path:
            if path in self.lines:
                return self.lines[path]
            path = path[:-1]
        return self.line


class _Unreadable(Exception):
    def __init__(self, line: int, path: Path, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.path = path
        self.message = message


@dataclass(slots=True)
class _Open:
    """A mapping or sequence whose end has not been seen."""

    value: dict[str, Value] | list[Value]
    path: Path
    line: int
    anchor: str | None
    size: int = 1
    key: str | None = None
    merged: set[str] = field(default_factory=set)
    """Keys that came by `<<`, which explicit ones replace."""


@dataclass(frozen=True, slots=True)
class _Anchored:
    value: Value
    size: int
    lines: dict[Path, int]
    """Relative to the anchored value."""


def read_documents(text: str, *, file: str) -> tuple[tuple[Document, ...], tuple[Problem, ...]]:
    """Read every document of a file; after a syntax error the ones before it are still given."""
    documents: list[Document] = []
    try:
        if len(text) > MAX_BYTES:
            raise _Unreadable(1, (), f"the file is larger than {MAX_BYTES} bytes; split it")
        documents.extend(_documents(text))
    except _Unreadable as error:
        return tuple(documents), (
            Problem(
                file=file, line=error.line, field=field_name(error.path), message=error.message
            ),
        )
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        what = ", ".join(filter(None, (error.context, error.problem)))
        return tuple(documents), (Problem(file=file, line=line, message=f"not valid YAML: {what}"),)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        return tuple(documents), (
            Problem(file=file, line=line, message=f"not valid YAML: {error.reason}"),
        )
    return tuple(documents), ()


def _documents(text: str) -> Iterator[Document]:
    builder = _Builder()
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        mark = event.start_mark
        line = mark.line + 1 if mark is not None else 1
        match event:
            case yaml.DocumentStartEvent():
                builder = _Builder()
            case yaml.DocumentEndEvent():
                if builder.root is not None and builder.root.value is not None:
                    yield builder.root
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                builder.open(event, line)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                builder.close()
            case yaml.ScalarEvent():
                builder.scalar(event, line)
            case yaml.AliasEvent():
                builder.alias(event.anchor or "", line)
            case _:
                pass  # where the stream begins and ends


class _Builder:
    """Puts one document together, event by event."""

    def __init__(self) -> None:
        self.root: Document | None = None
        self._stack: list[_Open] = []
        self._anchors: dict[str, _Anchored] = {}
        self._lines: dict[Path, int] = {}
        self._values = 0

    def open(self, event: yaml.CollectionStartEvent, line: int) -> None:
        path = self._next_path(line)
        if event.tag is not None and not event.tag.startswith("tag:yaml.org,2002:"):
            raise _Unreadable(line, path, f"the tag {event.tag} has no meaning here: remove it")
        if len(self._stack) >= MAX_DEPTH:
            raise _Unreadable(line, path[:8], f"nested deeper than {MAX_DEPTH} levels")
        self._count(1, line)
        self._lines.setdefault(path, line)
        empty: dict[str, Value] | list[Value] = (
            {} if isinstance(event, yaml.MappingStartEvent) else []
        )
        self._stack.append(_Open(empty, path, line, event.anchor))

    def close(self) -> None:
        done = self._stack.pop()
        if done.anchor is not None:
            depth = len(done.path)
            inside = {p[depth:]: n for p, n in self._lines.items() if p[:depth] == done.path}
            self._anchors[done.anchor] = _Anchored(done.value, done.size, inside)
        self._add(done.value, done.path, done.line, done.size)

    def scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        top = self._stack[-1] if self._stack else None
        if top is not None and isinstance(top.value, dict) and top.key is None:
            self._key(top, top.value, event.value, line)
            return
        path = self._next_path(line)
        self._count(1, line)
        self._lines.setdefault(path, line)
        value = _scalar(event, line, path)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, 1, {})
        self._add(value, path, line, 1)

    def alias(self, anchor: str, line: int) -> None:
        path = self._next_path(line)
        known = self._anchors.get(anchor)
        if known is None:
            raise _Unreadable(line, path, f"the alias *{anchor} names no anchor before it")
        self._count(known.size, line)
        for inner, at in known.lines.items():
            self._lines[path + inner] = at
        self._lines[path] = line
        self._add(known.value, path, line, known.size)

    def _key(self, top: _Open, mapping: dict[str, Value], key: str, line: int) -> None:
        path = (*top.path, key)
        if key in mapping and key not in top.merged:
            first = self._lines[path]
            raise _Unreadable(line, path, f"given twice, first on line {first}: keep one")
        self._lines[path] = line
        top.key = key

    def _next_path(self, line: int) -> Path:
        if not self._stack:
            return ()
        top = self._stack[-1]
        if isinstance(top.value, list):
            return (*top.path, len(top.value))
        if top.key is None:
            raise _Unreadable(line, top.path, "a field's name must be plain text")
        return (*top.path, top.key)

    def _count(self, size: int, line: int) -> None:
        self._values += size
        if self._values > MAX_VALUES:
            raise _Unreadable(line, (), f"the document has more than {MAX_VALUES} values")

    def _add(self, value: Value, path: Path, line: int, size: int) -> None:
        if not self._stack:
            self.root = Document(value=value, line=line, lines=self._lines)
            return
        top = self._stack[-1]
        top.size += size
        if isinstance(top.value, list):
            top.value.append(value)
        elif top.key == "<<":
            self._merge(top, value, path, line)
            top.key = None
        elif top.key is not None:
            top.value[top.key] = value
            top.key = None

    def _merge(self, top: _Open, value: Value, path: Path, line: int) -> None:
        """Take over the fields of a `<<: *anchor`; the mapping's own fields win."""
        if not isinstance(value, dict) or not isinstance(top.value, dict):
            raise _Unreadable(line, path, "<< takes a mapping")
        for key, item in value.items():
            if key not in top.value:
                top.value[key] = item
                top.merged.add(key)
        for inner in [p for p in self._lines if p[: len(path)] == path and p != path]:
            self._lines.setdefault(path[:-1] + inner[len(path) :], self._lines[inner])
        del self._lines[path]


_RESOLVER: Any = yaml.resolver.Resolver()
_CONSTRUCTOR: Any = yaml.constructor.SafeConstructor()
_TEXT = "tag:yaml.org,2002:str"
_CONSTRUCT: dict[str, Callable[[Any], Any]] = {
    "tag:yaml.org,2002:null": lambda _: None,
    "tag:yaml.org,2002:bool": _CONSTRUCTOR.construct_yaml_bool,
    "tag:yaml.org,2002:int": _CONSTRUCTOR.construct_yaml_int,
    "tag:yaml.org,2002:float": _CONSTRUCTOR.construct_yaml_float,
    _TEXT: lambda node: node.value,
    # Kubernetes keeps times as text.
    "tag:yaml.org,2002:timestamp": lambda node: node.value,
    "tag:yaml.org,2002:value": lambda node: node.value,
    "tag:yaml.org,2002:merge": lambda node: node.value,
}


def _scalar(event: yaml.ScalarEvent, line: int, path: Path) -> Value:
    tag = event.tag
    if tag is None:
        # "1:30" is a whole number in YAML 1.1 and never meant as one.
        if ":" in event.value or len(event.value) > 64 or not event.implicit[0]:
            return str(event.value)
        tag = _RESOLVER.resolve(yaml.ScalarNode, event.value, event.implicit)
    construct = _CONSTRUCT.get(tag)
    if construct is None:
        raise _Unreadable(line, path, f"the tag {tag} has no meaning here: remove it")
    try:
        value: Value = construct(yaml.ScalarNode(tag, event.value))
    except (ValueError, KeyError, IndexError):
        raise _Unreadable(line, path, f"{event.value!r} does not fit its tag {tag}") from None
    return value
