"""The outcome of a look at a source of objects: what of it is not served as it stands."""

from collections.abc import Collection
from dataclasses import dataclass, field

from mesh_configfile import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongFile:
    """A file, or a directory, with mistakes.

    since: when it was first seen to be wrong, however it was wrong then (Unix seconds).
    kept_objects: how many objects of its last good content are served in its place.
    kept_from: when that was first read; None when there is none.
    """

    file: str
    problems: tuple[Problem, ...]
    since: float
    kept_objects: int = 0
    kept_from: float | None = None
    is_served_in_part: bool = False
    """Whether it was never right, and is served without the objects that are wrong in it."""
    digest: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The outcome of the last look at a source of objects.

    looked_at: in Unix seconds. wrong: what is not served as it stands. files: those that there are.
    """

    looked_at: float
    wrong: tuple[WrongFile, ...] = ()
    files: Collection[str] = ()
