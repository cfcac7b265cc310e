"""What is kept after edits is what a fresh start computes; only edited values are computed anew."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import is_

from hypothesis import given
from hypothesis import strategies as st

from mesh_model._derived import Derived, derive, grouped, noted, view


@dataclass(frozen=True, eq=False)
class Item:
    """An object by its identity; two of one text say the same."""

    key: str | None
    text: str


def key_of(item: Item) -> str | None:
    return item.key


def same(one: Item, other: Item) -> bool:
    return one.text == other.text


def joined(key: str, items: tuple[Item, ...]) -> list[str]:
    return [key, *(each.text for each in items)]


def texts_of_a(value: list[str]) -> list[str]:
    return value[1:] if value[0] == "a" else []


OF_ITEMS = Derived[Item, str, list[str]]
ITEMS = [Item(key, text) for key in ("a", "b", "c", None) for text in ("x", "x", "y", "z")]
SEQUENCES = st.lists(st.sampled_from(range(len(ITEMS))), unique=True, max_size=12).map(
    lambda places: tuple(ITEMS[at] for at in places)
)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[Item, ...]]:
    """Draw sequences: each is the one before with some replaced, put in, left out or moved."""
    found = [draw(SEQUENCES)]
    for _ in range(draw(st.integers(1, 4))):
        items = list(found[-1])
        for _ in range(draw(st.integers(0, 3))):
            new = draw(st.sampled_from(ITEMS))
            at = draw(st.integers(0, len(items)))
            if new in items:
                items.remove(new)
            if draw(st.booleans()):
                items[at : at + 1] = [new]
            elif draw(st.booleans()):
                items.insert(at, new)
        found.append(tuple(items))
    return found


@given(
    histories(),
    st.lists(st.sampled_from("st"), min_size=5, max_size=5),
    st.sampled_from([is_, same]),
)
def test_values_after_edits_are_those_of_a_fresh_start(
    history: list[tuple[Item, ...]], settings: list[str], compare: Callable[[Item, Item], bool]
) -> None:
    derived: OF_ITEMS | None = None
    for objects, setting in zip(history, settings, strict=False):

        def make(key: str, items: tuple[Item, ...], setting: str = setting) -> list[str]:
            return [setting, *joined(key, items)]

        anew = derive(objects, key_of, make, before=None, settings=setting)
        now = derive(
            objects, key_of, make, before=derived, settings=setting, same=compare, in_order=True
        )
        assert now.values == anew.values
        assert list(now.values) == list(dict.fromkeys(each.key for each in objects if each.key))
        if now.in_place and derived is not None:
            assert [each.key for each in derived.objects] == [each.key for each in objects]
        assert now.groups == anew.groups
        assert now.objects == objects
        derived = now


@given(histories())
def test_a_value_is_kept_where_its_objects_say_the_same(history: list[tuple[Item, ...]]) -> None:
    before: OF_ITEMS = derive(history[0], key_of, joined, before=None)
    notes = noted(before, texts_of_a, {})
    for objects in history[1:]:
        now = derive(objects, key_of, joined, before=before, same=same)
        differ = {
            key
            for key in before.values.keys() | now.values.keys()
            if before.values.get(key) != now.values.get(key)
        }
        assert now.touched == differ
        assert all(now.values[key] is before.values[key] for key in now.values if key not in differ)
        assert (now.values is before.values) is (not differ)
        notes = noted(now, texts_of_a, notes)
        assert notes == noted(derive(objects, key_of, joined, before=None), texts_of_a, {})
        before = now


@given(histories())
def test_groups_after_edits_are_those_of_a_fresh_start(history: list[tuple[Item, ...]]) -> None:
    before = Derived[Item, str, tuple[Item, ...]]()
    for objects in history:
        now = grouped(objects, key_of, before=before, same=same)
        assert now.values == grouped(objects, key_of, before=Derived(), same=same).values
        texts = [
            {key: [each.text for each in items] for key, items in one.values.items()}
            for one in (before, now)
        ]
        keys = texts[0].keys() | texts[1].keys()
        assert now.touched == {key for key in keys if texts[0].get(key) != texts[1].get(key)}
        before = now


def test_nothing_is_computed_that_was_not_edited() -> None:
    asked: list[str] = []

    def make(key: str, items: tuple[Item, ...]) -> str:
        asked.append(key)
        return items[0].text

    a, b, c = (Item(key, "x") for key in "abc")
    derived = derive((a, b, c), key_of, make, before=None)
    assert sorted(asked) == ["a", "b", "c"]
    asked.clear()
    now = derive((a, Item("b", "y"), c), key_of, make, before=derived)
    assert asked == ["b"]
    assert now.values == {"a": "x", "b": "y", "c": "x"}
    assert derive((b, a, c), key_of, make, before=derived).values is derived.values
    assert asked == ["b"]


def test_what_depends_on_something_else_is_computed_again_when_that_is_named() -> None:
    said = {"a": "x", "b": "x"}
    objects = (Item("a", "1"), Item("b", "1"))

    def make(key: str, _items: tuple[Item, ...]) -> str:
        return said[key]

    derived = derive(objects, key_of, make, before=None)
    said = {"a": "y", "b": "y", "c": "y"}
    now = derive(objects, key_of, make, before=derived, also=("b", "c"))
    assert now.values == {"a": "x", "b": "y"}
    assert now.touched == {"b"}


def test_values_of_no_objects_are_kept_with_their_settings() -> None:
    derived = derive((), key_of, joined, before=None, settings="s")
    assert derived.settings == "s"
    assert derive((), key_of, joined, before=derived, settings="s").values is derived.values
    assert derive((), key_of, joined, before=derived, settings="t").settings == "t"


def test_nothing_is_touched_where_the_objects_are_those_before() -> None:
    objects = (Item("a", "1"),)
    derived = derive(objects, key_of, joined, before=None)
    assert derived.touched == {"a"}
    assert derive(objects, key_of, joined, before=derived).touched == frozenset()
    groups = grouped(objects, key_of, before=Derived(), same=same)
    assert grouped(objects, key_of, before=groups, same=same).touched == frozenset()


class Texts:
    """A class of derived values."""

    def __init__(self, derived: OF_ITEMS) -> None:
        self.derived = derived


def test_a_view_stays_while_its_values_do_and_knows_the_objects_as_they_are_read_again() -> None:
    first = view(Texts, derive((Item("a", "x"),), key_of, joined, before=None), None)
    again = (Item("a", "x"),)
    same_view = view(Texts, derive(again, key_of, joined, before=first.derived, same=same), first)
    assert same_view is first
    assert first.derived.objects is again
    edited = derive((Item("a", "y"),), key_of, joined, before=first.derived, same=same)
    assert view(Texts, edited, first) is not first
    assert view(Texts, derive((), key_of, joined, before=None), None).derived.values == {}
