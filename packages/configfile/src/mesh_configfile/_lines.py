"""The line of every field of a document, as a tree that shares the values of aliases."""

from collections.abc import Iterator

FieldPath = tuple[str | int, ...]
"""The path to a field: keys and list positions from the top of the document."""


class Lines:
    """The line (from 1) of a value, and the lines of the values inside it by key or position."""

    __slots__ = ("at", "inside")

    def __init__(self, at: int) -> None:
        self.at = at
        self.inside: dict[str | int, Lines] | None = None

    def add(self, part: str | int, lines: "Lines") -> None:
        """Set the lines of a value inside this one."""
        if self.inside is None:
            self.inside = {}
        self.inside[part] = lines

    def nearest(self, path: FieldPath) -> int:
        """Return the line of this field, or of the nearest field around it."""
        return self.at_path(path).at

    def at_path(self, path: FieldPath) -> "Lines":
        """Return the lines of this field, or of the nearest field around it."""
        here = self
        for part in path:
            below = here.inside.get(part) if here.inside is not None else None
            if below is None:
                break
            here = below
        return here

    def walk(self, path: FieldPath = ()) -> Iterator[tuple[FieldPath, int]]:
        """Yield every field below and its line, each before those inside it."""
        for part, below in (self.inside or {}).items():
            inner = (*path, part)
            yield inner, below.at
            if below.inside is not None:
                yield from below.walk(inner)
