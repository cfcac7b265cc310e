"""Each file's last good content is served as long as the file is wrong.

A pure function: the contents served before and the files found now give the contents served next.
A wrong file keeps its last good content, whatever happens to other files; one that never had any
is served without the objects that are wrong in it, if these stop only themselves. If two files name
one object, one of them is wrong: the file that had the object keeps it; of two new ones, the first
by path has it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from istio_config import ConfigObject, FileContent, ObjectKey, duplicate, object_key
from mesh_configfile import Problem
from mesh_discovery.sources._reading import WrongFile


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """The content of a path at this reading."""

    content: FileContent
    digest: bytes = b""
    """SHA-256 of its bytes; empty when they can't be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The content of a file that is served, and when it was first read (Unix seconds)."""

    content: FileContent
    digest: bytes
    read_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedFiles:
    """The content that is served of each file, and the files that are wrong."""

    served: Mapping[str, Served] = field(default_factory=dict)
    wrong: Mapping[str, WrongFile] = field(default_factory=dict)
    owners: Mapping[ObjectKey, str] = field(default_factory=dict, compare=False, repr=False)
    """The files that the objects are in."""


def serve_last_good(
    before: ServedFiles,
    seen: Mapping[str, FoundFile],
    *,
    now: float,
    unlisted: Collection[str] = (),
    changed: Collection[str] | None = None,
) -> ServedFiles:
    """Decide which content is served of each file.

    seen: every file, in order; and the directories that can't be listed, as content with problems.
    unlisted: those directories. The files below them are taken to exist still.
    changed: the paths that may differ from those seen before; None: any.

    The content of a file that is deleted is served no longer, wrong or not. A wrong file that was
    renamed is recognised by its bytes and keeps its last good content.
    """
    if changed is not None and not before.wrong and not unlisted:
        edited = _edited(before, seen, changed, now)
        if edited is not None:
            return edited
    former = _former_names(before, seen, unlisted)
    below_unlisted = {
        path: served
        for path, served in before.served.items()
        if path not in seen and _is_below(path, unlisted)
    }
    last_good = dict(below_unlisted)
    for path in seen:
        if (good := before.served.get(former.get(path, path))) is not None:
            last_good[path] = good
    problems = _problems(seen, last_good)
    served = dict(below_unlisted)
    for path, look in seen.items():
        good = last_good.get(path)
        is_right = path not in problems
        if good is None and problems.get(path) == look.content.problems:
            is_right = look.content.is_usable
        if is_right and (good is None or good.digest != look.digest):
            good = Served(content=look.content, digest=look.digest, read_at=now)
        if good is not None:
            served[path] = good
    wrong = {}
    kept_of = _kept_of(served, problems, unlisted)
    for path, found in problems.items():
        known = before.wrong.get(former.get(path, path))
        kept = kept_of.get(path, ())
        wrong[path] = WrongFile(
            file=path,
            problems=found,
            since=known.since if known is not None else now,
            kept_objects=sum(len(each.content.objects) for each in kept),
            kept_from=max((each.read_at for each in kept), default=None),
            digest=seen[path].digest,
            is_served_in_part=path in served and served[path].digest == seen[path].digest,
        )
    owners = {key: path for path, each in served.items() for key in each.content.by_key}
    return ServedFiles(served=served, wrong=wrong, owners=owners)


def _edited(
    before: ServedFiles, seen: Mapping[str, FoundFile], changed: Iterable[str], now: float
) -> ServedFiles | None:
    """Return what is served after changes without a mistake; it costs what changed.

    None if a file has one, or an object that another file has: then all are looked at together.
    """
    found: dict[str, Served] = {}
    gone: set[str] = set()
    owners = before.owners
    for path in changed:
        look, known = seen.get(path), before.served.get(path)
        if look is not None and look.content.problems:
            return None
        has = look.content.by_key.keys() if look is not None else set[ObjectKey]()
        had = known.content.by_key.keys() if known is not None else set[ObjectKey]()
        if not owners.keys().isdisjoint(has - had):
            return None
        if has != had:
            kept = {key: owner for key, owner in owners.items() if key not in had - has}
            owners = kept | dict.fromkeys(has - had, path)
        if look is None:
            gone.add(path)
        elif known is None or look.digest != known.digest:
            found[path] = Served(content=look.content, digest=look.digest, read_at=now)
    served = {**before.served, **found}
    if gone or len(served) > len(before.served):
        served = {path: served[path] for path in seen}
    return ServedFiles(served=served, owners=owners)


def _former_names(
    before: ServedFiles, seen: Mapping[str, FoundFile], unlisted: Collection[str]
) -> dict[str, str]:
    """Return the former path of each wrong file that was renamed."""
    gone = {
        wrong.digest: path
        for path, wrong in before.wrong.items()
        if wrong.digest and path not in seen and not _is_below(path, unlisted)
    }
    return {
        path: gone.pop(look.digest)
        for path, look in seen.items()
        if look.digest in gone and path not in before.served and path not in before.wrong
    }


def _problems(
    seen: Mapping[str, FoundFile], last_good: Mapping[str, Served]
) -> dict[str, tuple[Problem, ...]]:
    """Return the problems of each wrong file: its own, and objects that other files have.

    The last good contents agree with each other. So each file that falls back on its last good
    content can only make further new contents wrong. It costs what the files have, however many
    fall back one after the other.
    """
    wrong = {path: look.content.problems for path, look in seen.items() if look.content.problems}
    new = {
        path: look.content
        for path, look in seen.items()
        if (path not in last_good and look.content.is_usable)
        or (path in last_good and path not in wrong and last_good[path].digest != look.digest)
    }
    if not new:
        return wrong
    had = _by_key(served.content for path, served in last_good.items() if path not in new)
    at_odds: dict[str, tuple[Problem, ...]] = {}
    falling = [
        path for path, content in new.items() if not content.by_key.keys().isdisjoint(had.keys())
    ]
    holders = _holders(new)
    while True:
        while falling:
            path = falling.pop()
            if new.pop(path, None) is None:
                continue
            at_odds.setdefault(path, ())
            good = last_good.get(path)
            for key, item in good.content.by_key.items() if good is not None else ():
                had[key] = item
                falling += holders.get(key, ())
        twice = dict(_duplicates_among(new))
        if not twice:
            break
        at_odds |= twice
        falling = list(twice)
    if not at_odds:
        return wrong
    # The problems name the objects that are in the way at the end, not in an earlier round.
    had |= _by_key(new.values())
    kept = _kept((*wrong, *at_odds), last_good)
    in_the_way = dict(_duplicates(at_odds, seen, had=had, last_good=last_good, kept=kept))
    return wrong | {
        path: (*wrong.get(path, ()), *(in_the_way.get(path) or found))
        for path, found in at_odds.items()
    }


def _holders(contents: Mapping[str, FileContent]) -> Mapping[ObjectKey, Sequence[str]]:
    """Return the files that have an object of each key."""
    found: dict[ObjectKey, list[str]] = {}
    for path, content in contents.items():
        for key in content.by_key:
            found.setdefault(key, []).append(path)
    return found


def _kept(wrong: Iterable[str], last_good: Mapping[str, Served]) -> frozenset[str]:
    """Return the files that are served as they were before their mistakes."""
    return frozenset(
        item.file for path in wrong if path in last_good for item in last_good[path].content.objects
    )


def _by_key(contents: Iterable[FileContent]) -> dict[ObjectKey, ConfigObject]:
    found: dict[ObjectKey, ConfigObject] = {}
    for each in contents:
        found.update(each.by_key)
    return found


def _duplicates(
    at_odds: Iterable[str],
    seen: Mapping[str, FoundFile],
    *,
    had: Mapping[ObjectKey, ConfigObject],
    last_good: Mapping[str, Served],
    kept: Collection[str],
) -> Iterator[tuple[str, tuple[Problem, ...]]]:
    """Yield the objects of new contents that other files have; the file's own are not in its way.

    kept: the files that are served as they were before their mistakes.
    """
    for path in at_odds:
        own = last_good[path].content.by_key if path in last_good else {}
        taken = [
            (item, first)
            for item in seen[path].content.objects
            if (first := had.get(object_key(item))) is not None
            and first is not own.get(object_key(item))
        ]
        if taken:
            yield (
                path,
                tuple(
                    duplicate(item, first, remark=_KEPT if first.file in kept else "")
                    for item, first in taken
                ),
            )


_KEPT = " as it was before its mistakes"


def _duplicates_among(
    new: Mapping[str, FileContent],
) -> Iterator[tuple[str, tuple[Problem, ...]]]:
    """Yield the new contents with objects that another new content, earlier in order, has."""
    taken: dict[ObjectKey, ConfigObject] = {}
    for path, content in new.items():
        if content.by_key.keys().isdisjoint(taken.keys()):
            taken.update(content.by_key)
            continue
        duplicates = [
            (item, taken[object_key(item)]) for item in content.objects if object_key(item) in taken
        ]
        yield path, tuple(duplicate(item, first) for item, first in duplicates)


def _kept_of(
    served: Mapping[str, Served], wrong: Iterable[str], unlisted: Collection[str]
) -> Mapping[str, Sequence[Served]]:
    """Return what is served in the place of each wrong file, and of all below each directory."""
    found = {path: [served[path]] for path in wrong if path in served}
    for path, each in served.items() if unlisted else ():
        for directory in _directories_of(path):
            if directory in unlisted:
                found.setdefault(directory, []).append(each)
    return found


def _is_below(path: str, directories: Collection[str]) -> bool:
    return bool(directories) and any(each in directories for each in _directories_of(path))


def _directories_of(path: str) -> Iterator[str]:
    """Yield the directories that a path leads through, the innermost first."""
    at = path.rfind("/")
    while at > 0:
        path = path[:at]
        yield path
        at = path.rfind("/")
