"""Data with mistakes, changed to fit: what is right in it stays, and the rest is named."""

from enum import StrEnum
from typing import Annotated, Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from mesh_configfile import Duration
from mesh_configfile.mending import Reduced, mended
from mesh_configfile.shapes import decode, differences


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Port(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    number: Annotated[int, msgspec.Meta(ge=1, le=65535)]
    name: Annotated[str, msgspec.Meta(min_length=1)]
    timeout: Duration | None = None


class Service(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    hosts: tuple[str, ...]
    ports: tuple[Port, ...] = ()
    labels: dict[str, str] = {}
    colour: Colour = Colour.RED
    main: Port | None = None


def read(value: Any) -> tuple[Service, set[tuple[str | int, ...]]]:
    found = mended(value, Service)
    assert found is not None
    return decode(found[0], Service), set(found[1])


def test_what_is_right_stays_as_it_is() -> None:
    value: Any = {"hosts": ["a"], "ports": [{"number": 80, "name": "x", "timeout": "3s"}]}

    assert mended(value, Service) == (value, (), ())


def test_a_misspelt_field_counts_as_the_one_that_is_meant() -> None:
    service, unread = read({"host": ["a"], "hosts_": 3, "labels": {"a": "b", "c": 4}})

    assert service.hosts == ("a",)
    assert service.labels == {"a": "b"}
    assert unread == {("host",), ("hosts",), ("hosts_",), ("labels", "c")}


def test_items_of_lists_keep_their_places() -> None:
    service, unread = read(
        {"hosts": ["a", 5, "c"], "ports": [{"number": "x", "name": "a"}, {"number": 2}, 7]}
    )

    assert (service.hosts[0], service.hosts[2]) == ("a", "c")
    assert [each.number for each in service.ports] == [1, 2, 1]
    assert unread == {("hosts", 1), ("ports", 0, "number"), ("ports", 1, "name"), ("ports", 2)}


def test_what_may_be_left_out_is() -> None:
    service, unread = read({"hosts": [], "colour": "green", "main": {"number": 0, "name": "m"}})

    assert service.colour is Colour.RED
    assert service.main == Port(number=1, name="m")
    assert unread == {("colour",), ("main", "number")}


def test_a_misspelt_choice_counts_as_the_one_that_is_meant() -> None:
    service, unread = read({"hosts": [], "colour": "blu"})

    assert service.colour is Colour.BLUE
    assert unread == {("colour",)}


def test_what_is_no_mapping_is_not_mended() -> None:
    assert mended(["a"], Service) is None


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.just("3s"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["hosts", "host", "ports", "labels", "colour", "main", "number", "nam"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["hosts", "ports", "port", "main", "labels"]), _values))
def test_whatever_is_given_fits_then_and_every_mistake_is_at_an_unread_path(value: Any) -> None:
    found = mended(value, Service)

    assert found is not None
    fitting, unread, _ = found
    assert not list(differences(fitting, Service))
    for path, _ in differences(value, Service):
        assert any(each[: len(path)] == path for each in unread), (path, unread)


def test_what_is_left_out_moves_no_path() -> None:
    reduced = Reduced({"hosts": ["a", "b", "c", "d"]})
    for index in (1, 1):  # b, and what is in its place then
        assert reduced.mend(Service)
        assert reduced.leave_out(("hosts", index))

    assert reduced.value == {"hosts": ["a", "d"]}
    assert reduced.left_out == [("hosts", 1), ("hosts", 2)]
    found = [(("hosts", 1), "of d"), (("hosts",), "of what was left out")]
    assert list(reduced.untouched(found)) == [(("hosts", 3), "of d")]


def test_what_is_around_is_left_out_where_leaving_out_a_field_did_not_help() -> None:
    reduced = Reduced({"hosts": ["a"], "main": {"number": 80, "name": "x"}})
    path = ("main", "name")
    assert reduced.leave_out(path)
    assert reduced.mend(Service)
    assert reduced.leave_out(path)

    assert reduced.value == {"hosts": ["a"]}
    assert not reduced.leave_out(())
