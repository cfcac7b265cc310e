"""What YAML is read as, what is refused, and where the sentence about it points."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_configfile import MAX_BYTES, MAX_DEPTH, MAX_VALUES, Value, read_documents

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)


def values(source: str | bytes) -> list[Value]:
    documents, problems = read_documents(source, file="x")
    assert not problems
    return [each.value for each in documents]


def messages(source: str | bytes) -> list[str]:
    documents, problems = read_documents(source, file="x")
    assert not documents
    return [str(each) for each in problems]


def test_every_field_knows_its_line() -> None:
    ((document,), _) = read_documents("a:\n  - b: 1\n    c:\n      d: x\n", file="x")
    assert document.value == {"a": [{"b": 1, "c": {"d": "x"}}]}
    assert dict(document.lines()) == {
        ("a",): 1,
        ("a", 0): 2,
        ("a", 0, "b"): 2,
        ("a", 0, "c"): 3,
        ("a", 0, "c", "d"): 4,
    }


def test_a_missing_field_has_the_line_of_what_is_around_it() -> None:
    ((document,), _) = read_documents("a:\n  b:\n    c: 1\n", file="x")
    problem = document.problem(("a", "b", "nothing", 3), "is missing")
    assert str(problem) == "x:2: a.b.nothing[3]: is missing"


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("a: [1\nb: 2\n", "x:2: not valid YAML: while parsing a flow sequence"),
        ("a:\n b: 1\nc\n", "x:4: not valid YAML: while scanning a simple key"),
        ("a: [", "x:1: not valid YAML: while parsing a flow node"),
        ("a: [\n", "x:2: not valid YAML: while parsing a flow node"),
        ("a:\n\t- b\n", "x:2: not valid YAML: while scanning for the next token, found character"),
        ("a: 1\nb: \0\n", "x:2: not valid YAML: control characters are not allowed, found U+0000"),
        ("ä: öü\nb: \x01\n", "x:2: not valid YAML: control characters are not allowed"),
        ("a: \ud800\n", "x:1: not UTF-8 text"),
        ("a: 1\nb: ü\n".encode("latin-1"), "x:2: not UTF-8 text; save the file as UTF-8"),
        ("a: {{ x }}\n", "x:1: a: a field's name must be plain text; text that begins with {"),
        ("? [1, 2]\n: x\n", "x:1: a field's name must be plain text"),
        ("a: 1\nb: 2\na: 3\n", "x:3: a: given twice, first on line 1: keep one"),
        ("80: x\n'80': y\n", "x:2: 80: given twice, first on line 1: keep one"),
        ("a: *nothing\n", "x:1: a: the alias *nothing names no anchor before it"),
        ("a: &a [*a]\n", "x:1: a[0]: the alias *a names no anchor before it"),
        ("a: !!python/object:os.system x\n", "x:1: a: the tag tag:yaml.org,2002:python/object"),
        ("a: !!python/object:os.system {x: 1}\n", "x:1: a: the tag tag:yaml.org,2002:python/"),
        ("a: !mine [x]\n", "x:1: a: the tag !mine has no meaning here: remove it"),
        ("!mine a: x\n", "x:1: a: the tag !mine has no meaning here: remove it"),
        ("a: !!set {x}\n", "x:1: a: the tag tag:yaml.org,2002:set has no meaning here: remove it"),
        ("a: !!binary aGVsbG8=\n", "x:1: a: the tag tag:yaml.org,2002:binary has no meaning"),
        ("a: !!map [1]\n", "x:1: a: the tag tag:yaml.org,2002:map has no meaning here"),
        ("a: !!int x\n", "x:1: a: 'x' does not fit its tag tag:yaml.org,2002:int"),
        ("a: .nan\n", "x:1: a: .nan is no finite number; put it in quotes if it is text"),
        ("m: {<<: 1}\n", "x:1: m.<<: << takes a mapping, or a list of mappings"),
        (BOMB, f"x:6: the document has more than {MAX_VALUES} values"),
        ("a: 1\n" + "# x\n" * (MAX_BYTES // 4), f"x:1: the file is larger than {MAX_BYTES} bytes"),
        ("[" * 100_000, f"x:1: [0][0][0][0][0][0][0][0]: nested deeper than {MAX_DEPTH} levels"),
        ("a:\n" + "- x\n" * (MAX_VALUES + 1), f"the document has more than {MAX_VALUES} values"),
    ],
    ids=range(29),
)
def test_a_mistake_is_named_with_its_place(source: str | bytes, wanted: str) -> None:
    (problem,) = messages(source)
    assert wanted in problem


def test_a_tab_is_reported_with_what_would_be_right() -> None:
    (problem,) = messages("a:\n\tb: 1\n")
    assert problem.endswith("; indent with spaces, not tabs")


def test_all_mistakes_of_a_file_are_reported_at_once() -> None:
    documents, problems = read_documents(
        "a: 1\na: 2\nb: !mine x\nc: *d\nb: 3\n---\ngood: 1\n---\nm: !!int y\n---\nn: [1\n", file="x"
    )
    assert [each.value for each in documents] == [{"good": 1}]
    assert [(each.line, each.field) for each in problems] == [
        (2, "a"),
        (3, "b"),
        (4, "c"),
        (5, "b"),
        (9, "m"),
        (12, ""),
    ]


def test_no_more_mistakes_are_reported_than_can_be_read() -> None:
    problems = messages("a: 1\n" * 1000)
    assert len(problems) == 101
    assert problems[-1] == "x:102: more mistakes than these are not looked for"


def test_an_alias_is_what_it_names_with_the_lines_where_that_stands() -> None:
    ((document,), _) = read_documents("a: &x\n  k: 1\nb:\n  - *x\n", file="x")
    assert document.value == {"a": {"k": 1}, "b": [{"k": 1}]}
    assert document.line_of(("b", 0)) == 4
    assert document.line_of(("b", 0, "k")) == 2


def test_merge_keys_take_over_fields_that_are_not_given() -> None:
    text = "base: &base {a: 1, b: 2}\nmore:\n  <<: *base\n  b: 3\n"
    ((document,), _) = read_documents(text, file="x")
    assert document.value == {"base": {"a": 1, "b": 2}, "more": {"a": 1, "b": 3}}
    assert document.line_of(("more", "b")) == 4
    assert document.line_of(("more", "a")) == 1


def test_of_several_merged_mappings_the_first_wins() -> None:
    text = "a: &a {k: 1}\nb: &b {k: 2, l: 3}\nm: {<<: [*a, *b]}\n"
    assert values(text) == [{"a": {"k": 1}, "b": {"k": 2, "l": 3}, "m": {"k": 1, "l": 3}}]


def test_a_field_given_twice_is_reported_though_it_was_merged_before() -> None:
    text = "a: &a {k: 1}\nm:\n  <<: *a\n  k: 2\n  k: 3\n"
    assert messages(text) == ["x:5: m.k: given twice, first on line 4: keep one"]


def test_two_merge_keys_are_reported_with_the_way_to_write_them() -> None:
    text = "a: &a {k: 1}\nm:\n  <<: *a\n  <<: *a\n"
    assert messages(text) == ["x:4: m.<<: given twice, first on line 3: keep one, as <<: [*a, *b]"]


def test_a_merge_key_in_quotes_is_a_field() -> None:
    assert values("m: {'<<': 1}\n") == [{"m": {"<<": 1}}]


def test_aliases_do_not_nest_deeper_than_the_text_may() -> None:
    chain = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, MAX_DEPTH))
    (problem,) = messages(chain)
    assert f"nested deeper than {MAX_DEPTH} levels" in problem


def test_what_aliases_repeat_is_bounded_over_all_documents_of_a_file() -> None:
    bomb = "a: &a [" + "x," * 900 + "]\nb: [" + "*a," * 200 + "]\n"
    documents, problems = read_documents("---\n".join([bomb] * 3), file="x")
    assert len(documents) == 1
    assert [each.message for each in problems] == [
        f"the aliases repeat more than {MAX_VALUES} values"
    ]


def test_scalars_are_what_kubernetes_takes_them_for() -> None:
    text = "[1:30, 2020-01-01, 'yes', yes, off, y, 0x10, 1.5, ~, '8', !!str 8, 00:11:22, =]"
    assert values(text) == [
        [
            "1:30",
            "2020-01-01",
            "yes",
            True,
            False,
            "y",
            16,
            1.5,
            None,
            "8",
            "8",
            "00:11:22",
            "=",
        ]
    ]


def test_names_of_fields_are_text() -> None:
    assert values("{80: a, on: b, ~: c, 1.5: d}") == [{"80": "a", "on": "b", "~": "c", "1.5": "d"}]


@pytest.mark.parametrize("text", ["", " \n", "# a\n# b\n", "---\n", "---\n---\n# a\n---\n", "~\n"])
def test_what_says_nothing_has_no_documents(text: str) -> None:
    assert values(text) == []


@pytest.mark.parametrize("text", ["a: 1\n---\nb: 2\n", "a: 1\n...\n---\n---\n\ufeffb: 2\n...\n"])
def test_every_document_of_a_file_is_read(text: str) -> None:
    assert values(text) == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize(
    "source", ["\ufeffa: 1\nb: [x]\n", "a: 1\r\nb:\r\n  - x\r\n", "a:\t1\nb: [x]", b"a: 1\nb: [x]"]
)
def test_byte_order_marks_line_ends_and_tabs_between_words_do_not_matter(
    source: str | bytes,
) -> None:
    assert values(source) == [{"a": 1, "b": ["x"]}]


def test_without_libyaml_the_same_is_read() -> None:
    program = (
        "import sys; sys.modules['yaml._yaml'] = None\n"
        "from mesh_configfile import read_documents\n"
        "text = 'a: &a [1]\\nb: *a\\n---\\nc: 1\\nc: 2\\n'\n"
        "documents, problems = read_documents(text, file='x')\n"
        "print([each.value for each in documents], *problems)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout == (
        "[{'a': [1], 'b': [1]}] x:5: c: given twice, first on line 4: keep one\n"
    )


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**60), 10**60)
    | st.integers(-9999, 9999).map(lambda each: each / 8)
    | st.text("a\u00e9\U0001f600:#{}[]\"'\\ \t<&*!|>-?,%@`0~\n", max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab<: 1", max_size=3), inner)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text("ab<", max_size=3), _json, min_size=1))
def test_json_is_read_as_it_was_written(value: dict[str, Value]) -> None:
    assert values(json.dumps(value, ensure_ascii=False)) == [value]


@given(st.text(max_size=200) | st.text("ab:&*-[]{}<!#\n \t'\"|", max_size=60))
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    _, problems = read_documents(text, file="x")
    assert all(each.line >= 1 and each.message for each in problems)


@given(st.binary(max_size=100))
def test_any_bytes_are_read_or_refused_in_words(data: bytes) -> None:
    _, problems = read_documents(data, file="x")
    assert all(each.line >= 1 and each.message for each in problems)
