"""The objects that differ between two snapshots, at a pointer comparison for each that does not.

Services are compared by their content (`_changed_services`). Rules are compared as objects: what
they mean to a proxy shows in the resources that are built from them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from istio_config import ConfigObject, ObjectKey, Snapshot
from istio_config.edits import edits
from istio_config.kinds.destination_rule import DESTINATION_RULE
from istio_config.kinds.gateway import GATEWAY
from istio_config.kinds.registry import AnyKind
from istio_config.kinds.sidecar import SIDECAR
from istio_config.kinds.virtual_service import VIRTUAL_SERVICE

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


RULE_KINDS: tuple[AnyKind, ...] = (DESTINATION_RULE, GATEWAY, SIDECAR, VIRTUAL_SERVICE)
"""The kinds of rules that have an effect: each is pushed when one of its objects changes."""


class RuleObjects:
    """The objects of all kinds of rules, oldest first."""

    def __init__(self, by_kind: Mapping[str, Sequence[ConfigObject]]) -> None:
        """by_kind: by the kind's name with its group."""
        self._by_kind = by_kind

    @classmethod
    def build(cls, snapshot: Snapshot, translated: Sequence[ConfigObject] = ()) -> "RuleObjects":
        """Return those of a snapshot, and those that others of its objects are translated to."""
        found: dict[str, Sequence[ConfigObject]] = {
            f"{kind.name}.{kind.group}": snapshot.of_kind(kind) for kind in RULE_KINDS
        }
        for name in {f"{each.kind}.{each.group}" for each in translated}:
            own = (each for each in translated if f"{each.kind}.{each.group}" == name)
            found[name] = (*found.get(name, ()), *own)
        return cls(found)

    def of_kind(self, kind: AnyKind) -> Sequence[ConfigObject]:
        """Return the objects of one of the kinds, oldest first."""
        return self._by_kind.get(f"{kind.name}.{kind.group}", ())

    def differing(self, other: "RuleObjects") -> frozenset[ObjectKey]:
        """Return the keys of the objects that two sets do not have alike."""
        return frozenset(self.differences(other))

    def differences(self, other: "RuleObjects") -> Mapping[ObjectKey, "Differing"]:
        """Return the objects that two sets do not have alike, by their keys."""
        found: dict[ObjectKey, Differing] = {}
        for kind in self._by_kind.keys() | other._by_kind.keys():
            found |= _differences(self._by_kind.get(kind, ()), other._by_kind.get(kind, ()))
        return found


Differing: TypeAlias = tuple[ConfigObject | None, ConfigObject | None]
"""An object in the one set and in the other; None: it is not there."""


def same_spec(one: ConfigObject, other: ConfigObject) -> bool:
    """Return whether two versions of an object differ only in file, line or labels."""
    return one.spec is other.spec and one.key == other.key


def says_the_same(one: ConfigObject, other: ConfigObject) -> bool:
    """Return whether two versions of an object are equal in all that can have an effect."""
    return one.key == other.key and content_of(one) == content_of(other)


def _differences(
    old: Sequence[ConfigObject], new: Sequence[ConfigObject]
) -> dict[ObjectKey, Differing]:
    changed = edits(old, new)
    gone = {each.key: each for each in changed.gone}
    come = {each.key: each for each in changed.come}
    return {
        key: (gone.get(key), come.get(key))
        for key in gone.keys() | come.keys()
        if content_of(gone.get(key)) != content_of(come.get(key))
    }


def content_of(item: ConfigObject | None) -> object:
    """Return all of an object that can have an effect; where it stands in files has none."""
    if item is None:
        return None
    return item.spec, item.status, item.labels, item.annotations, item.created
