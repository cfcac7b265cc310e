"""Finds which objects of two snapshots are not the same, at the cost of a glance at each."""

from collections.abc import Sequence

from mesh_discovery.config._objects import ConfigObject


def changed_objects(
    before: Sequence[ConfigObject], after: Sequence[ConfigObject]
) -> tuple[list[ConfigObject], list[ConfigObject]]:
    """Return the objects that are no longer there, and those that are new, an edited one as both.

    An object that only stands on another line of its file is none of them.
    """
    if before is after:
        return [], []
    known, here = set(map(id, before)), set(map(id, after))
    if known == here:
        return [], []
    gone = {each.key: each for each in before if id(each) not in here}
    come = {each.key: each for each in after if id(each) not in known}
    moved = {key for key, each in come.items() if key in gone and same_content(gone[key], each)}
    return (
        [each for key, each in gone.items() if key not in moved],
        [each for key, each in come.items() if key not in moved],
    )


def same_content(one: ConfigObject, other: ConfigObject) -> bool:
    """Tell whether two objects say the same, wherever they stand."""
    return (
        one.spec == other.spec
        and one.status == other.status
        and one.labels == other.labels
        and one.annotations == other.annotations
        and one.created == other.created
    )
