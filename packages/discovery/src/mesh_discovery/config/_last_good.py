"""What is served of files that may be wrong: each file's own last good content.

Pure: what was served before and what the files hold now give what is served next. A file that is
wrong keeps what it last gave, whatever becomes of the others. Two files that name one object can't
both be right: the one that had it keeps it, and of two new ones the first by path.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from mesh_configfile import Problem
from mesh_discovery.config._file_content import Claim, FileContent, claim, second
from mesh_discovery.config._objects import ConfigObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a path holds now."""

    content: FileContent
    digest: bytes = b""
    """Of its bytes; empty when they can't be had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The content of a file that is served, and when it was first read (Unix seconds)."""

    content: FileContent
    digest: bytes
    read_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongFile:
    """A file, or a directory, that can't be used as it is.

    since: when it was first seen to be wrong, however it was wrong then (Unix seconds).
    kept_objects: how many objects of its last good content are served in its place.
    kept_from: when that was first read; None when there is none.
    """

    file: str
    problems: tuple[Problem, ...]
    since: float
    kept_objects: int = 0
    kept_from: float | None = None
    digest: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What is served of each file, and the files that are wrong."""

    served: Mapping[str, Served] = field(default_factory=dict)
    wrong: Mapping[str, WrongFile] = field(default_factory=dict)


def settle(
    before: Settled, seen: Mapping[str, Seen], *, now: float, hidden: Iterable[str] = ()
) -> Settled:
    """Decide what is served of the files that there are.

    seen: every file, in order; and the directories that can't be listed, as content with problems.
    hidden: those directories. The files below them are there as far as anyone knows.

    A file that is gone takes its content with it, wrong or not. A wrong one that was renamed is
    known by its bytes and keeps what it kept.
    """
    former = _former_names(before, seen, hidden)
    out_of_sight = {
        path: served
        for path, served in before.served.items()
        if path not in seen and _is_below(path, hidden)
    }
    last_good = dict(out_of_sight)
    for path in seen:
        if (good := before.served.get(former.get(path, path))) is not None:
            last_good[path] = good
    problems = _problems(seen, last_good)
    served = dict(out_of_sight)
    for path, look in seen.items():
        good = last_good.get(path)
        if path not in problems and (good is None or good.digest != look.digest):
            good = Served(content=look.content, digest=look.digest, read_at=now)
        if good is not None:
            served[path] = good
    wrong = {}
    for path, found in problems.items():
        known = before.wrong.get(former.get(path, path))
        kept = [served[each] for each in served if each == path or _is_below(each, (path,))]
        wrong[path] = WrongFile(
            file=path,
            problems=found,
            since=known.since if known is not None else now,
            kept_objects=sum(len(each.content.objects) for each in kept),
            kept_from=max((each.read_at for each in kept), default=None),
            digest=seen[path].digest,
        )
    return Settled(served=served, wrong=wrong)


def _former_names(
    before: Settled, seen: Mapping[str, Seen], hidden: Iterable[str]
) -> dict[str, str]:
    """Find the wrong files that have another path now."""
    gone = {
        wrong.digest: path
        for path, wrong in before.wrong.items()
        if wrong.digest and path not in seen and not _is_below(path, hidden)
    }
    return {
        path: gone.pop(look.digest)
        for path, look in seen.items()
        if look.digest in gone and path not in before.served and path not in before.wrong
    }


def _problems(
    seen: Mapping[str, Seen], last_good: Mapping[str, Served]
) -> dict[str, tuple[Problem, ...]]:
    """Name the files that can't be used as they are, alone or beside the others.

    The last good contents agree with each other. So each file that has to fall back on its own
    can only make further new ones wrong, and this comes to an end.
    """
    wrong = {path: look.content.problems for path, look in seen.items() if look.content.problems}
    while True:
        new = {
            path: look.content
            for path, look in seen.items()
            if path not in wrong
            and (path not in last_good or last_good[path].digest != look.digest)
        }
        had = _claims(served.content for path, served in last_good.items() if path not in new)
        kept = frozenset(
            item.file
            for path in wrong
            if path in last_good
            for item in last_good[path].content.objects
        )
        found = dict(_clashes(new, had, kept)) or dict(_clashes_among(new))
        if not found:
            break
        wrong |= found
    # Each is told of all that is in its way at the end, not of what was when it lost.
    at_odds = {path: seen[path].content for path in wrong if not seen[path].content.problems}
    return wrong | dict(_clashes(at_odds, had | _claims(new.values()), kept))


def _claims(contents: Iterable[FileContent]) -> dict[Claim, ConfigObject]:
    return {claim(item): item for content in contents for item in content.objects}


def _clashes(
    new: Mapping[str, FileContent], had: Mapping[Claim, ConfigObject], kept: frozenset[str]
) -> Iterator[tuple[str, tuple[Problem, ...]]]:
    """Yield the new contents that want what others have."""
    for path, content in new.items():
        taken = [(item, had[claim(item)]) for item in content.objects if claim(item) in had]
        if taken:
            yield (
                path,
                tuple(
                    second(item, first, remark=_KEPT if first.file in kept else "")
                    for item, first in taken
                ),
            )


_KEPT = " as it was before its mistakes"


def _clashes_among(
    new: Mapping[str, FileContent],
) -> Iterator[tuple[str, tuple[Problem, ...]]]:
    """Yield the new contents that want what another new one, earlier in order, wants too."""
    taken: dict[Claim, ConfigObject] = {}
    for path, content in new.items():
        clashes = [(item, taken[claim(item)]) for item in content.objects if claim(item) in taken]
        if clashes:
            yield path, tuple(second(item, first) for item, first in clashes)
        else:
            taken |= {claim(item): item for item in content.objects}


def _is_below(path: str, directories: Iterable[str]) -> bool:
    return any(path.startswith(f"{directory}/") for directory in directories)
