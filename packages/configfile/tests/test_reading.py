"""A text of one document, in JSON or YAML; and what is loaded for it."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_configfile import MAX_DEPTH, Document, Value, read_document


def messages(text: str) -> list[str]:
    document, problems = read_document(text, file="x")
    assert document.value is None
    return [str(each) for each in problems]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": {"b": [1, 1e3, "\\ud83d\\ude00"]}}', {"a": {"b": [1, 1000.0, "\U0001f600"]}}),
        ("a: {b: [1]}", {"a": {"b": [1]}}),
        ("- a\n---\n# nothing\n", ["a"]),
        ("", None),
        ("# nothing\n", None),
        # what only YAML reads
        ("{a: 1}", {"a": 1}),
        ('{"a": NaN}', {"a": "NaN"}),
    ],
)
def test_json_and_yaml_are_read(text: str, value: Value) -> None:
    document, problems = read_document(text, file="x")
    assert (document.value, problems) == (value, ())


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a: 1\n---\nb: 2\n", "x:3: only one document can stand here; remove the --- before it"),
        ('{"a": 1,\n "a": 2}', "x:2: a: given twice, first on line 1: keep one"),
        ('{"a": 1} x', "x:1: not valid YAML: "),
        ('{"a": "\\ud800"}', "x:1: not valid YAML: "),
        ('{"a": "\udc80"}', "x:1: not UTF-8 text"),
        ("[" * 100_000, "nested deeper"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "nested deeper"),
        ('{"a": "' + "x" * (9 << 20) + '"}', "x:1: the file is larger than"),
    ],
    ids=range(8),
)
def test_a_mistake_is_reported_with_its_line_in_json_too(text: str, wanted: str) -> None:
    (problem,) = messages(text)
    assert wanted in problem


def test_a_number_without_end_is_none() -> None:
    document, problems = read_document('{"a": 1e999}', file="x")
    assert document.value == {"a": "1e999"}
    assert not problems


def test_the_fields_of_json_have_lines() -> None:
    document, _ = read_document('{"a": 1,\n "b": [\n  {"c": 2}]}', file="x")
    assert str(document.problem(("b", 0, "c"), "is wrong")) == "x:3: b[0].c: is wrong"
    assert document.line == 1


def test_a_document_that_says_nothing_has_a_line_for_what_is_missing() -> None:
    document, _ = read_document("", file="x")
    assert str(document.problem((), "the field a is missing")) == "x:1: the field a is missing"


def test_heavy_libraries_are_loaded_when_they_are_used() -> None:
    program = (
        "import sys, mesh_configfile\n"
        "mesh_configfile.read_document('{\"a\": 1}', file='x')\n"
        "mesh_configfile.read_document('', file='x')\n"
        "mesh_configfile.parse_duration('1s')\n"
        "mesh_configfile.parse_bytes('1Mi')\n"
        "assert not {'yaml', 'msgspec', 'dataclasses', 'difflib'} & set(sys.modules)\n"
        "mesh_configfile.read_document('a: 1', file='x')\n"
        "assert 'yaml' in sys.modules and 'msgspec' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@given(st.text(max_size=100) | st.text('{}[]",:a1e\\ud8 \n', max_size=40))
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    document, problems = read_document(text, file="x")
    assert document.value is None or not problems
    assert all(each.line >= 1 and each.message for each in problems)


def test_a_part_is_a_document_with_its_own_lines() -> None:
    document, _ = read_document("kind: List\nitems:\n- a: 1\n- b:\n    c: 2\n", file="x")
    part = document.part("items", 1)
    assert part.value == {"b": {"c": 2}}
    assert (part.line, part.line_of(("b", "c"))) == (4, 5)
    with pytest.raises(LookupError):
        document.part("items", "1", "x")


def test_problems_of_a_value_that_was_in_no_file_say_no_line() -> None:
    document = Document.from_value({"spec": {"ports": [1]}}, file="memory")
    assert str(document.problem(("spec", "ports", 0), "is wrong")) == (
        "memory: spec.ports[0]: is wrong"
    )
    assert document.problem((), "is wrong").place == "memory"
    assert list(document.lines()) == []
