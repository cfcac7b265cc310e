from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_local._yaml import MAX_DEPTH, YamlError, read_yaml, spelled


def test_every_field_knows_its_line() -> None:
    document = read_yaml("a:\n  - b: 1\n    c:\n      d: x\n")
    assert document.value == {"a": [{"b": 1, "c": {"d": "x"}}]}
    assert document.line_of(("a", 0, "c", "d")) == 4
    assert document.line_of(("a", 0, "b")) == 2


def test_a_missing_field_has_the_line_of_what_is_around_it() -> None:
    assert read_yaml("a:\n  b:\n    c: 1\n").line_of(("a", "b", "nothing", 3)) == 2


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("a: [1, 2]]", 1, "not valid YAML"),
        ("a: 1\nb: 2\na: 3\n", 3, "given twice, first on line 1"),
        ("a: 1\n---\nb: 2\n", 2, "one document"),
        ("a: &x 1\nb: *x\n", 2, "aliases"),
        ("a: \x01", 1, "not valid YAML"),
        ("? [1, 2]\n: x\n", 1, "plain text"),
        ("a: !!int x\n", 1, "does not fit its tag"),
        ("a: !python/object:os.system x\n", 1, "does not fit its tag"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), 1, "nested deeper"),
    ],
)
def test_unusable_text_is_refused_with_its_line(text: str, line: int, part: str) -> None:
    with pytest.raises(YamlError, match=part) as caught:
        read_yaml(text)
    assert caught.value.line == line


@given(st.text())
def test_no_text_does_anything_but_be_read_or_refused(text: str) -> None:
    with suppress(YamlError):
        read_yaml(text)


def test_a_path_is_spelled_as_people_do() -> None:
    assert spelled(("workloads", 0, "ports", 1, "port")) == "workloads[0].ports[1].port"
