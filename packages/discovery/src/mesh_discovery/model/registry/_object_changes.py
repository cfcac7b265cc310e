"""Finds which objects of two snapshots are not the same, at the cost of a glance at each."""

from collections.abc import Sequence
from operator import is_not

from mesh_discovery.config._objects import ConfigObject

_FEW = 100


def changed_objects(
    before: Sequence[ConfigObject], after: Sequence[ConfigObject]
) -> tuple[list[ConfigObject], list[ConfigObject]]:
    """Return the objects that are no longer there, and those that are new, an edited one as both.

    An object that only stands on another line of its file is none of them.
    """
    if before is after:
        return [], []
    old, new = _differing(before, after)
    if not old and not new:
        return [], []
    gone, come = {each.key: each for each in old}, {each.key: each for each in new}
    moved = {key for key, each in come.items() if key in gone and same_content(gone[key], each)}
    return (
        [each for key, each in gone.items() if key not in moved],
        [each for key, each in come.items() if key not in moved],
    )


def _differing(
    before: Sequence[ConfigObject], after: Sequence[ConfigObject]
) -> tuple[list[ConfigObject], list[ConfigObject]]:
    if len(before) == len(after):  # nearly always: some are edited, in their places
        places = [at for at, other in enumerate(map(is_not, before, after)) if other]
        if len(places) <= _FEW:
            return [before[at] for at in places], [after[at] for at in places]
    known, here = set(map(id, before)), set(map(id, after))
    return (
        [each for each in before if id(each) not in here],
        [each for each in after if id(each) not in known],
    )


def same_content(one: ConfigObject, other: ConfigObject) -> bool:
    """Tell whether two objects say the same, wherever they stand."""
    return (
        one.spec == other.spec
        and one.status == other.status
        and one.labels == other.labels
        and one.annotations == other.annotations
        and one.created == other.created
        and one.is_ending == other.is_ending
    )
