"""Finds the objects that differ between two snapshots, at a pointer comparison for each."""

from collections.abc import Callable, Sequence

from istio_config import ConfigObject
from istio_config.edits import edits

Same = Callable[[ConfigObject, ConfigObject], bool]


def same_content(one: ConfigObject, other: ConfigObject) -> bool:
    """Return whether two objects have equal content; file and line do not count."""
    return (
        one.key == other.key
        and one.spec == other.spec
        and one.status == other.status
        and one.labels == other.labels
        and one.annotations == other.annotations
        and one.created == other.created
        and one.is_ending == other.is_ending
    )


def changed_objects(
    before: Sequence[ConfigObject],
    after: Sequence[ConfigObject],
    same: Same = same_content,
) -> tuple[list[ConfigObject], list[ConfigObject]]:
    """Return the objects that are no longer there, and those that are new, an edited one as both.

    same: whether two versions of an object count as equal; by default their content is.
    """
    old, new = edits(before, after)
    if not old and not new:
        return [], []
    gone, come = {each.key: each for each in old}, {each.key: each for each in new}
    moved = {key for key, each in come.items() if key in gone and same(gone[key], each)}
    return (
        [each for key, each in gone.items() if key not in moved],
        [each for key, each in come.items() if key not in moved],
    )
