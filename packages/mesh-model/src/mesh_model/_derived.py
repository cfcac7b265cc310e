"""Incremental computation: one value for each key of a list of objects, rebuilt where edited.

The invariant: after any number of edits the values equal those of a fresh start on the same
objects. Istio's krt collections (pkg/kube/krt) promise the same, and find out what a value depends
on by recording each read; here the key says it. Why: docs/decisions/0057.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Any, Generic, Protocol, TypeVar

from istio_config.edits import edits_in_order

_O = TypeVar("_O")
_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")
_N = TypeVar("_N")
_Groups = Mapping[_K, tuple[_O, ...]]


@dataclass(frozen=True)
class Derived(Generic[_O, _K, _V]):
    """The values by key, with the objects that they were built from."""

    objects: tuple[_O, ...] = ()
    """All, in order."""
    groups: Mapping[_K, tuple[_O, ...]] = field(default_factory=dict, repr=False)
    """The objects of each key, in order."""
    values: Mapping[_K, _V] = field(default_factory=dict, repr=False)
    """The same mapping as before if no value was built or is gone, and the order is the same."""
    settings: object = None
    """All that values depend on beside their objects."""
    touched: frozenset[_K] = frozenset()
    """The keys whose values were built or are gone since the ones before."""
    in_place: bool = False
    """Whether all objects have the places and keys of those before."""

    def as_it_was(self) -> "Derived[_O, _K, _V]":
        """Return the same, of which nothing was touched since."""
        if self.in_place and not self.touched:
            return self
        return replace(self, touched=frozenset(), in_place=True)


def derive(
    objects: Iterable[_O],
    key: Callable[[_O], _K | None],
    make: Callable[[_K, tuple[_O, ...]], _V],
    *,
    before: Derived[_O, _K, _V] | None,
    settings: object = None,
    same: Callable[[_O, _O], bool] = is_,
    also: Collection[_K] = (),
    in_order: bool = False,
) -> Derived[_O, _K, _V]:
    """Build the value of each key, and keep those of `before` whose objects did not change.

    key: the key of an object; None: it has no value. make: builds the value of a key from its
        objects, in order; it may read nothing else but the settings and what `also` announces.
        before: the previous result; with other settings none of its values is kept. same: whether
        two objects of one key lead to the same value; by default they are the same Python object.
        also: keys to rebuild though their objects did not change, because something else that
        `make` reads did. in_order: the values stand in the order of the first object of each key;
        otherwise their order means nothing.
    """
    known: Derived[_O, _K, _V] = (
        before if before is not None and before.settings == settings else Derived(settings=settings)
    )
    objects = tuple(objects)
    if objects is known.objects and not also:
        return known.as_it_was() if known is before else known
    groups, edited, in_place = _regrouped(known.objects, known.groups, objects, key)
    touched = _not_same(edited, known.groups, groups, same).union(
        each for each in also if each in groups
    )
    values = known.values
    if touched:
        found = dict(values)
        for each in touched:
            if each in groups:
                found[each] = make(each, groups[each])
            else:
                del found[each]
        values = found
    in_place = in_place and known is before
    if in_order and not in_place:
        values = {each: values[each] for each in map(key, objects) if each is not None}
    return Derived(objects, groups, values, settings, touched, in_place)


def noted(
    derived: Derived[_O, _K, _V], note: Callable[[_V], _N], before: Mapping[_K, _N]
) -> Mapping[_K, _N]:
    """Return a summary of each value by its key, such as the labels that it reads.

    Empty summaries are left out. before: the summaries of the previous values; none if no value
    was kept.
    """
    found = dict(before)
    for each in derived.touched:
        found.pop(each, None)
        if each in derived.values and (value := note(derived.values[each])):
            found[each] = value
    return found


def grouped(
    objects: Iterable[_O],
    key: Callable[[_O], _K | None],
    *,
    before: Derived[_O, _K, tuple[_O, ...]],
    same: Callable[[_O, _O], bool],
) -> Derived[_O, _K, tuple[_O, ...]]:
    """Sort objects by key: the values are the groups themselves, of the objects as they are now.

    A value is replaced also where an object was only read again; `touched` names the keys whose
    objects are not the `same`.
    """
    objects = tuple(objects)
    if objects is before.objects:
        return before.as_it_was()
    groups, edited, in_place = _regrouped(before.objects, before.groups, objects, key)
    touched = _not_same(edited, before.groups, groups, same)
    return Derived(objects, groups, groups, None, touched, in_place)


class _View(Protocol[_O, _K, _V]):
    """An instance of a class that holds derived values and nothing else."""

    derived: Derived[_O, _K, _V]


_W = TypeVar("_W", bound=_View[Any, Any, Any])


def view(
    make: Callable[[Derived[_O, _K, _V]], _W], derived: Derived[_O, _K, _V], before: _W | None
) -> _W:
    """Return an instance for derived values: the previous one if no value changed."""
    if before is None or before.derived.values is not derived.values:
        return make(derived)
    before.derived = (
        derived  # of objects that were read again; the next edit is compared with these
    )
    return before


def _regrouped(
    before: Sequence[_O],
    groups: _Groups[_K, _O],
    after: tuple[_O, ...],
    key: Callable[[_O], _K | None],
) -> tuple[_Groups[_K, _O], Iterable[_K], bool]:
    """Return the objects of each key after edits, and the keys with others or in another order.

    Then, whether all objects have the places and keys of those before.
    """
    changed = edits_in_order(before, after)
    gone, come = list(map(key, changed.gone)), list(map(key, changed.come))
    in_place = changed.are_replacements and gone == come
    edited = [each for each in dict.fromkeys((*gone, *come)) if each is not None]
    if not edited:
        return groups, (), in_place
    arrived: dict[_K | None, list[_O]] = {}
    for where, item in zip(come, changed.come, strict=True):
        arrived.setdefault(where, []).append(item)
    found, gone_ids = dict(groups), set(map(id, changed.gone))
    mixed: dict[int, _K] = {}
    for where in edited:
        left = [each for each in found.get(where, ()) if id(each) not in gone_ids]
        here = arrived.get(where, [])
        if left and here:
            mixed.update((id(each), where) for each in (*left, *here))
        if left or here:
            found[where] = (*left, *here)
        else:
            del found[where]
    if mixed:
        found.update(_in_order(after, mixed))
    return found, edited, in_place


def _in_order(objects: Iterable[_O], wanted: Mapping[int, _K]) -> _Groups[_K, _O]:
    """Return the wanted of some objects, by their identities, in the objects' order."""
    found: dict[_K, list[_O]] = {}
    for each in objects:
        if (where := wanted.get(id(each))) is not None:
            found.setdefault(where, []).append(each)
    return {where: tuple(items) for where, items in found.items()}


def _not_same(
    edited: Iterable[_K],
    before: _Groups[_K, _O],
    after: _Groups[_K, _O],
    same: Callable[[_O, _O], bool],
) -> frozenset[_K]:
    return frozenset(
        each
        for each in edited
        if len(old := before.get(each, ())) != len(new := after.get(each, ()))
        or not all(map(same, old, new))
    )
