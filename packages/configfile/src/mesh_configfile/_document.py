"""One document: plain values, and the line of each."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mesh_configfile._lines import FieldPath, Lines
    from mesh_configfile._problems import Problem

Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]


class Document:
    """A document of a file. Its lines may be found only when the first of them is requested."""

    __slots__ = ("_lines", "file", "value")

    def __init__(self, value: Value, *, file: str, lines: "Lines | Callable[[], Lines]") -> None:
        """file: its name in problems."""
        self.value = value
        self.file = file
        self._lines = lines

    @classmethod
    def from_value(cls, value: Value, *, file: str) -> "Document":
        """Return the document of a value that was in no file: all of it is on line 0.

        file: what problems call the place that it is from.
        """
        from mesh_configfile._lines import Lines

        return cls(value, file=file, lines=Lines(0))

    @property
    def has_lines(self) -> bool:
        """Whether lines are known without reading the text again."""
        return not callable(self._lines)

    @property
    def line(self) -> int:
        """The line at which the document begins (from 1)."""
        return self.tree.at

    def line_of(self, path: "FieldPath") -> int:
        """Return the line of this field, or of the nearest field around it."""
        return self.tree.nearest(path)

    def lines(self) -> "Iterator[tuple[FieldPath, int]]":
        """Yield every field and its line."""
        return self.tree.walk()

    def problem(self, path: "FieldPath", message: str, code: str = "") -> "Problem":
        """Make a problem of a field of this document; code: of its sort."""
        from mesh_configfile._problems import Problem, field_name

        return Problem(
            file=self.file,
            line=self.line_of(path),
            field=field_name(path),
            message=message,
            code=code,
        )

    def part(self, *path: str | int) -> "Document":
        """Return a value inside as a document of its own; raises LookupError if there is none."""
        value = self.value
        for each in path:
            match value:
                case dict():
                    value = value[str(each)]
                case list() if isinstance(each, int):
                    value = value[each]
                case _:
                    raise LookupError(each)
        return Document(value, file=self.file, lines=lambda: self.tree.at_path(path))

    @property
    def tree(self) -> "Lines":
        """The lines of all fields, as they are nested."""
        if callable(self._lines):
            self._lines = self._lines()
        return self._lines
