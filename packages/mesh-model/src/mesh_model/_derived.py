"""Values that are made of objects by a key; an edit makes only those anew that it is about.

The one rule is that what is kept is what a fresh start would make: however objects came to be as
they are, the values are equal to those that are made of them with nothing before. See
docs/decisions/0057-what-is-kept-after-an-edit.md.
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
    """Values by key, and the objects that they are made of."""

    objects: tuple[_O, ...] = ()
    """All, in order."""
    groups: Mapping[_K, tuple[_O, ...]] = field(default_factory=dict, repr=False)
    """The objects of each key, in order."""
    values: Mapping[_K, _V] = field(default_factory=dict, repr=False)
    """The same mapping as before if no value was made or is gone, and the order is the same."""
    settings: object = None
    """What all values depend on beside their objects."""
    touched: frozenset[_K] = frozenset()
    """The keys whose values were made or are gone since the ones before."""
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
    """Make a value for each key of objects; those before are kept where they are right.

    key: returns what an object is sorted by; None: no value is made of it. make: is given a key and
        its objects in order, and depends on nothing else but the settings and what `also` tells
        of. before: the values of the objects before; of other settings, none is kept. same: tells
        whether two objects of one key lead to the same value, in each other's place. also: the
        keys of which something else is another now. in_order: the values are in the order of the
        first object of each; else their order means nothing.
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
    made: Derived[_O, _K, _V], note: Callable[[_V], _N], before: Mapping[_K, _N]
) -> Mapping[_K, _N]:
    """Return what there is to note of values, by their keys; what is empty is left out.

    before: the notes of the values before of which some were kept; none, if none was.
    """
    found = dict(before)
    for each in made.touched:
        found.pop(each, None)
        if each in made.values and (value := note(made.values[each])):
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

    So what is touched is told apart from what was only read again and is the `same`.
    """
    objects = tuple(objects)
    if objects is before.objects:
        return before.as_it_was()
    groups, edited, in_place = _regrouped(before.objects, before.groups, objects, key)
    touched = _not_same(edited, before.groups, groups, same)
    return Derived(objects, groups, groups, None, touched, in_place)


class _View(Protocol[_O, _K, _V]):
    """An instance of a class that is made of derived values alone."""

    made: Derived[_O, _K, _V]


_W = TypeVar("_W", bound=_View[Any, Any, Any])


def view(
    make: Callable[[Derived[_O, _K, _V]], _W], made: Derived[_O, _K, _V], before: _W | None
) -> _W:
    """Return what a class makes of derived values: the one before if it is made of the same."""
    if before is None or before.made.values is not made.values:
        return make(made)
    before.made = made  # of objects that were read again; the next edit is compared with these
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
