"""Data against a type of msgspec: every difference, in the words of those who write YAML."""

from enum import StrEnum
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_configfile import Duration, Value, field_name
from mesh_configfile.shapes import decode, differences

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]


class Color(StrEnum):
    RED = "RED"
    GREEN = "GREEN"


class Inner(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    target_port: Port
    name: Annotated[str, msgspec.Meta(min_length=1)] = "a"


class Outer(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    ports: tuple[Inner, ...] = ()
    labels: dict[str, str] = {}
    color: Color = Color.RED
    timeout: Duration = Duration(1)
    lifetime: str = "1h"
    zone: str = "0"
    on: bool = False
    weight: Annotated[int, msgspec.Meta(ge=0)] | None = None
    anything: Any = None


RIGHT: dict[str, Value] = {
    "ports": [{"targetPort": 80}],
    "labels": {"a": "b"},
    "color": "GREEN",
    "timeout": "1m30s",
    "on": True,
    "weight": None,
    "anything": [{}],
}


def test_data_that_fits_is_decoded() -> None:
    assert not list(differences(RIGHT, Outer))
    assert decode(RIGHT, Outer) == Outer(
        ports=(Inner(target_port=80),),
        labels={"a": "b"},
        color=Color.GREEN,
        timeout=Duration(90),
        on=True,
        anything=[{}],
    )


@pytest.mark.parametrize(
    ("value", "place", "message"),
    [
        ([], "", "expected a mapping, found a list"),
        ({"port": []}, "port", "unknown field; did you mean ports?"),
        (
            {"ports": [{"target_port": 80}]},
            "ports[0].target_port",
            "unknown field; did you mean targetPort?",
        ),
        ({"ports": [{}]}, "ports[0]", "the field targetPort is missing"),
        ({"ports": {}}, "ports", "expected a list, found a mapping"),
        (
            {"ports": [{"targetPort": 0}]},
            "ports[0].targetPort",
            "expected a number from 1 to 65535, found 0",
        ),
        (
            {"ports": [{"targetPort": "80"}]},
            "ports[0].targetPort",
            'expected a whole number, found the text "80"',
        ),
        ({"ports": [{"targetPort": 1, "name": ""}]}, "ports[0].name", "must not be empty"),
        ({"labels": {"a": 1}}, "labels.a", "expected text, found the number 1; put it in quotes"),
        ({"labels": None}, "labels", "expected a mapping, found nothing"),
        ({"color": "red"}, "color", 'expected one of RED, GREEN, found the text "red"'),
        ({"on": "yes"}, "on", 'expected true or false, found the text "yes"'),
        ({"weight": -1}, "weight", "expected a number of at least 0, found -1"),
        (
            {"timeout": 10},
            "timeout",
            (
                "expected a duration such as 10s or 250ms, found the number 10; "
                "it needs a unit: h, m, s, ms, us or ns"
            ),
        ),
        (
            {"lifetime": 60},
            "lifetime",
            (
                "expected a duration such as 1h, found the number 60; "
                "it needs a unit: h, m, s, ms, us or ns"
            ),
        ),
        ({"zone": 1}, "zone", "expected text, found the number 1; put it in quotes"),
        (
            {"timeout": "1d"},
            "timeout",
            'expected a duration such as 10s or 250ms, found the text "1d"; a day is 24h',
        ),
        ({"timeout": "-1s"}, "timeout", "'-1s' is shorter than 0s, the shortest allowed"),
    ],
)
def test_a_difference_is_reported_with_its_place_and_what_would_be_right(
    value: Value, place: str, message: str
) -> None:
    assert [(field_name(path), text) for path, text in differences(value, Outer)] == [
        (place, message)
    ]


def test_all_differences_are_reported_at_once_below_the_path_given() -> None:
    value: Value = {"on": 1, "x": 2, "ports": [{"targetPort": 80}, 3]}
    found = differences(value, Outer, ("spec",))
    assert [field_name(path) for path, _ in found] == ["spec.on", "spec.x", "spec.ports[1]"]


_names = st.sampled_from([*RIGHT, "targetPort", "name", "x"])
_anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "1s", "RED", "80"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=4),
    max_leaves=8,
)


@given(_anything)
def test_what_has_no_difference_is_decoded(value: Value) -> None:
    if not list(differences(value, Outer)):
        decode(value, Outer)


class Share(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    value: Annotated[float, msgspec.Meta(ge=0, le=100)] = 0.0


class Lenient(msgspec.Struct, frozen=True, kw_only=True):
    name: str = ""


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (0.5, []),
        (100, []),
        ("1", ['value: expected a number, found the text "1"']),
        (True, ["value: expected a number, found true"]),
        (100.5, ["value: expected a number from 0 to 100, found 100.5"]),
    ],
)
def test_a_share_is_a_number_with_or_without_a_fraction(value: Value, wanted: list[str]) -> None:
    found = [f"{field_name(path)}: {text}" for path, text in differences({"value": value}, Share)]
    assert found == wanted


def test_a_struct_that_allows_other_fields_has_them_let_pass() -> None:
    value: Value = {"name": "a", "other": {"b": 1}}
    assert list(differences(value, Lenient)) == []
    assert decode(value, Lenient) == Lenient(name="a")
