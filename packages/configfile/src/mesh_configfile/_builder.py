"""Builds documents from the YAML parser's events, with a stack and limits of its own.

PyYAML's composer recurses in C and crashes on deep nesting, silently keeps the last of two equal
keys, and lets aliases make a large document of a small file.
"""

from dataclasses import dataclass, field
from typing import NoReturn

import yaml

from mesh_configfile._document import Document, Value
from mesh_configfile._lines import FieldPath, Lines
from mesh_configfile._problems import Problem, field_name
from mesh_configfile._scalars import STANDARD, ScalarError, meaningless_tag, scalar_value

MAX_DEPTH = 64
MAX_VALUES = 200_000
"""The most values of one document, and the most that the aliases of a file may repeat."""
MAX_PROBLEMS = 100


class Unreadable(Exception):
    """The rest of the file can't be read; `Builder.problems` has the reason."""


@dataclass(slots=True)
class _Open:
    """A mapping or sequence whose end has not been read."""

    value: dict[str, Value] | list[Value]
    lines: Lines
    anchor: str | None
    size: int = 1
    depth: int = 1
    key: str | None = None
    merges: bool = False
    """Whether the next value is that of a `<<`."""
    merged: set[str] = field(default_factory=set)
    """The keys from a `<<`, which explicit keys replace."""


@dataclass(frozen=True, slots=True)
class _Anchored:
    value: Value
    size: int
    depth: int
    lines: Lines


class Builder:
    """Builds the documents of one file, event by event."""

    def __init__(self, file: str) -> None:
        self.problems: list[Problem] = []
        self._file = file
        self._repeated = 0
        self.begin()

    def begin(self) -> None:
        """Begin a document."""
        self._root: Document | None = None
        self._stack: list[_Open] = []
        self._anchors: dict[str, _Anchored] = {}
        self._values = 0
        self._right_before = len(self.problems)

    def end(self) -> Document | None:
        """Return the document; None if it is empty or has a mistake."""
        if self._root is None or self._root.value is None:
            return None
        return self._root if len(self.problems) == self._right_before else None

    def open(self, event: yaml.CollectionStartEvent, line: int) -> None:
        """Handle the beginning of a mapping or sequence; raises `Unreadable`."""
        self._expect_value(line)
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        if event.tag not in (None, f"{STANDARD}{'map' if is_mapping else 'seq'}"):
            self._add_problem(line, meaningless_tag(str(event.tag)))
        self._bound_depth(1, line)
        self._count(1, line)
        empty: dict[str, Value] | list[Value] = {} if is_mapping else []
        self._stack.append(_Open(empty, Lines(line), event.anchor))

    def close(self) -> None:
        """Handle the end of a mapping or sequence."""
        done = self._stack.pop()
        if done.anchor is not None:
            self._anchors[done.anchor] = _Anchored(done.value, done.size, done.depth, done.lines)
        self._add(done.value, done.lines, size=done.size, depth=done.depth)

    def scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        """Handle a scalar or a mapping's key; raises `Unreadable`."""
        top = self._stack[-1] if self._stack else None
        if top is not None and isinstance(top.value, dict) and top.key is None:
            self._key(top, event, line)
            return
        self._count(1, line)
        try:
            value = scalar_value(event)
        except ScalarError as error:
            self._add_problem(line, str(error))
            value = None
        lines = Lines(line)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, 1, 0, lines)
        self._add(value, lines, size=1, depth=0)

    def alias(self, anchor: str, line: int) -> None:
        """Handle an alias; raises `Unreadable`."""
        self._expect_value(line)
        known = self._anchors.get(anchor)
        if known is None:
            self._add_problem(line, f"the alias *{anchor} names no anchor before it")
            known = _Anchored(None, 1, 0, Lines(line))
        self._bound_depth(known.depth, line)
        self._count(known.size, line)
        self._repeated += known.size
        if self._repeated > MAX_VALUES:
            self.fail(line, f"the aliases repeat more than {MAX_VALUES} values")
        lines = Lines(line)
        lines.inside = known.lines.inside
        self._add(known.value, lines, size=known.size, depth=known.depth)

    def fail(self, line: int, message: str, path: FieldPath = ()) -> NoReturn:
        """Record a problem and raise `Unreadable`."""
        self.problems.append(
            Problem(file=self._file, line=line, field=field_name(path), message=message)
        )
        raise Unreadable

    def _key(self, top: _Open, event: yaml.ScalarEvent, line: int) -> None:
        top.key = event.value
        top.merges = event.value == "<<" and event.implicit[0]
        if event.tag not in (None, f"{STANDARD}str"):
            self._add_problem(line, meaningless_tag(event.tag))
        known = (top.lines.inside or {}).get(event.value)
        if known is not None and event.value not in top.merged:
            advice = "keep one, as <<: [*a, *b]" if top.merges else "keep one"
            self._add_problem(line, f"given twice, first on line {known.at}: {advice}")
        # The line of a field is the line of its name.
        top.lines.add(event.value, Lines(line))

    def _add(self, value: Value, lines: Lines, *, size: int, depth: int) -> None:
        if not self._stack:
            self._root = Document(value, file=self._file, lines=lines)
            return
        top = self._stack[-1]
        top.size += size
        top.depth = max(top.depth, depth + 1)
        if isinstance(top.value, list):
            top.lines.add(len(top.value), lines)
            top.value.append(value)
        elif top.key is not None:
            if top.merges:
                self._merge(top, top.value, value, lines)
            else:
                (top.lines.inside or {})[top.key].inside = lines.inside
                top.value[top.key] = value
                top.merged.discard(top.key)
            top.key = None

    def _merge(self, top: _Open, mapping: dict[str, Value], value: Value, lines: Lines) -> None:
        """Add the fields of `<<: *anchor`; the mapping's own fields and earlier ones win."""
        sources = value if isinstance(value, list) else [value]
        for index, source in enumerate(sources):
            if not isinstance(source, dict):
                self._add_problem(lines.at, "<< takes a mapping, or a list of mappings")
                break
            below = lines if source is value else (lines.inside or {})[index]
            for key, item in source.items():
                if key not in mapping:
                    mapping[key] = item
                    top.merged.add(key)
                    top.lines.add(key, (below.inside or {})[key])

    def _expect_value(self, line: int) -> None:
        top = self._stack[-1] if self._stack else None
        if top is not None and isinstance(top.value, dict) and top.key is None:
            self.fail(
                line,
                "a field's name must be plain text; text that begins with { or [ needs quotes",
                self._path(),
            )

    def _bound_depth(self, more: int, line: int) -> None:
        if len(self._stack) + more > MAX_DEPTH:
            self.fail(line, f"nested deeper than {MAX_DEPTH} levels", self._path()[:8])

    def _count(self, size: int, line: int) -> None:
        self._values += size
        if self._values > MAX_VALUES:
            self.fail(line, f"the document has more than {MAX_VALUES} values")

    def _add_problem(self, line: int, message: str) -> None:
        if len(self.problems) == MAX_PROBLEMS:
            self.fail(line, "more mistakes than these are not looked for")
        self.problems.append(
            Problem(file=self._file, line=line, field=field_name(self._path()), message=message)
        )

    def _path(self) -> FieldPath:
        """Return the path to the value that is being read."""
        path: list[str | int] = []
        for each in self._stack:
            if isinstance(each.value, list):
                path.append(len(each.value))
            elif each.key is not None:
                path.append(each.key)
        return tuple(path)
