"""The difference of two sequences, of which one is the other after a few edits.

Elements are compared by identity: the same object is the same. That costs a few nanoseconds for
each, so that an edit of a mesh of ten thousand services costs what was edited.
"""

from collections.abc import Iterable, Sequence
from itertools import compress, count, repeat
from operator import is_, is_not
from typing import Generic, NamedTuple, TypeVar

_T = TypeVar("_T")
_FEW = 100


class Edits(NamedTuple, Generic[_T]):
    """The elements that only one of two sequences has, the former or the later one."""

    gone: list[_T]
    come: list[_T]

    def __bool__(self) -> bool:
        """Return whether there is any."""
        return bool(self.gone or self.come)


def edits(before: Sequence[_T], after: Sequence[_T]) -> Edits[_T]:
    """Return the elements that were removed and those that were added, both in order.

    No sequence may have an element twice.
    """
    if before is after:
        return Edits([], [])
    if len(before) == len(after):  # nearly always: some are edited, in their places
        changed = list(compress(count(), map(is_not, before, after)))
        if len(changed) <= _FEW:
            return _but_moved([before[at] for at in changed], [after[at] for at in changed])
    return _but_moved(*_middles(before, after))


class EditsInOrder(NamedTuple, Generic[_T]):
    """The elements without which two sequences would be equal, in order too."""

    gone: list[_T]
    come: list[_T]
    are_replacements: bool
    """Whether the first added element stands where the first removed one stood, and so on."""


def edits_in_order(before: Sequence[_T], after: Sequence[_T]) -> EditsInOrder[_T]:
    """Return the edits; an element that was moved is both removed and added."""
    changed = replacements(before, after)
    if changed is not None:
        gone, come = [old for old, _ in changed], [new for _, new in changed]
        if set(map(id, gone)).isdisjoint(map(id, come)):
            return EditsInOrder(gone, come, True)
    one, other = _middles(before, after)
    found = _but_moved(one, other)
    gone_ids, come_ids = set(map(id, found.gone)), set(map(id, found.come))
    stayed = [each for each in one if id(each) not in gone_ids]
    here = [each for each in other if id(each) not in come_ids]
    if all(map(is_, stayed, here)):
        return EditsInOrder(*found, False)
    return EditsInOrder([*one], [*other], False)


def replacements(before: Sequence[_T], after: Sequence[_T]) -> list[tuple[_T, _T]] | None:
    """Return the pairs of different elements at the same index; None if the lengths differ."""
    if before is after:
        return []
    if len(before) != len(after):
        return None
    return list(compress(zip(before, after, strict=True), map(is_not, before, after)))


def with_replaced(elements: tuple[_T, ...], changes: Iterable[tuple[_T, _T]]) -> tuple[_T, ...]:
    """Return the elements after some were replaced; none may be there twice."""
    found = list(elements)
    for old, new in changes:
        at = next(compress(count(), map(is_, elements, repeat(old))), None)
        if at is not None:
            found[at] = new
    return tuple(found)


def _middles(before: Sequence[_T], after: Sequence[_T]) -> tuple[Sequence[_T], Sequence[_T]]:
    """Return both without their common beginning and end."""
    shorter = min(len(before), len(after))
    first = next(compress(count(), map(is_not, before, after)), shorter)
    last = next(compress(count(), map(is_not, reversed(before), reversed(after))), shorter)
    last = min(last, shorter - first)
    return before[first : len(before) - last], after[first : len(after) - last]


def _but_moved(before: Sequence[_T], after: Sequence[_T]) -> Edits[_T]:
    """Return the edits without the elements that were only moved."""
    known, here = set(map(id, before)), set(map(id, after))
    return Edits(
        [each for each in before if id(each) not in here],
        [each for each in after if id(each) not in known],
    )
