"""A configuration with all its files, also those with mistakes: for checks, and never served.

Serving leaves out a file with mistakes. A check keeps of each wrong object what is right in it, so
that a reference to it is no second mistake.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from istio_config._ages import aged, seniority_of
from istio_config._file_content import FileContent, duplicate, object_key
from istio_config._objects import ConfigObject, ObjectKey
from istio_config._snapshot import Snapshot, snapshot_of
from mesh_configfile import Problem


class Whole(NamedTuple):
    """A configuration with its mistakes.

    snapshot: the first object of each key. duplicates: a problem for each further one.
    """

    snapshot: Snapshot
    duplicates: tuple[Problem, ...]


def whole_of(
    contents: Sequence[FileContent],
    *,
    beside: Sequence[FileContent] = (),
    believe_timestamps: bool = False,
) -> Whole:
    """Return the configuration of these files, with what is right in objects with mistakes.

    beside: other files of the same mesh; where both have an object, that of `contents` counts.
    """
    first: dict[ObjectKey, ConfigObject] = {}
    duplicates: list[Problem] = []
    found: list[FileContent] = []
    for content in contents:
        kept = []
        for item in _in_order((*content.objects, *content.rest)):
            known = first.setdefault(object_key(item), item)
            if known is item:
                kept.append(item)
            elif ("metadata", "name") not in item.unread:
                duplicates.append(duplicate(item, known))
        found.append(replace(content, objects=tuple(kept), rest=()))
    for content in beside:
        kept = [
            item
            for item in (*content.objects, *content.rest)
            if first.setdefault(object_key(item), item) is item
        ]
        found.append(FileContent(objects=tuple(kept)))
    seniority = seniority_of(found, believes=believe_timestamps)
    return Whole(snapshot_of([aged(each, seniority) for each in found]), tuple(duplicates))


def _in_order(objects: Iterable[ConfigObject]) -> list[ConfigObject]:
    return sorted(objects, key=lambda each: each.line)
