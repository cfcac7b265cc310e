"""The cost of regular expressions, found from their text, held to programs of RE2 itself."""

import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from istio_config.expression_cost import MAX_OBJECT_COST, compile_cost, group_count, program_size
from istio_config.kinds._regular_expressions import regex_mistake

LEAST_SHARE = 0.6
"""Of the size of RE2's program that is found."""

_atoms = st.sampled_from(
    (
        *("x", "ab", ".", "é", "€", r"\.", r"\w", r"\d", r"\s", r"\W", r"\S", "^", "$", r"\b"),
        *("[a-z]", "[^/]", "[a-z0-9_.-]", "[^é€]", "[]a]", "[[:alnum:]]", r"[\w\s]", r"\x{20ac}"),
        *(r"\pN", r"[\pL\pN]", r"\p{Greek}", r"\Qa.b\E", "[é-€]"),
    )
)
_repeats = st.sampled_from(
    ("", "", "", "*", "+", "?", "*?", "{3}", "{0,5}", "{1,20}", "{2,}", "{0,99}", "{99}")
)


def _joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    repeated = st.builds(str.__add__, parts, _repeats)
    return st.lists(repeated, min_size=1, max_size=4).map("".join)


def _grouped(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    one = _joined(inner)
    return st.one_of(
        st.builds("({})".format, one),
        st.builds("(?:{})".format, one),
        st.builds("(?P<n>{})".format, one),
        st.builds("({}|{})".format, one, one),
        inner,
    )


_expressions = st.builds(
    str.__add__,
    st.sampled_from(("", "", "(?i)", "(?s)")),
    _joined(st.recursive(_atoms, _grouped, max_leaves=6)),
)


def compiled(text: str) -> "re2._Regexp | None":
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error:
        return None


@settings(deadline=None, max_examples=300)
@given(_expressions)
def test_a_program_is_hardly_larger_than_what_is_found(text: str) -> None:
    program = compiled(text)
    if program is None:
        return

    assert program_size(text) >= LEAST_SHARE * program.programsize
    if "?P<" not in text:
        assert group_count(text) == program.groups


def test_common_expressions_are_cheap() -> None:
    for text in (
        *(".*", "/api/v[0-9]+/.*", "^/users/[0-9]+$", "(?i)mobile|android|iphone", "[^/]{1,64}"),
        *(r"^(https?)://([^/:]+)(:\d+)?/(.*)$", "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
        *(r"\w+@\w+\.(com|org)", "bearer [A-Za-z0-9._~+/-]+=*"),
    ):
        program = compiled(text)
        assert program is not None
        assert program_size(text) <= 5 * program.programsize
        assert compile_cost(text) <= MAX_OBJECT_COST / 50
        assert regex_mistake(text) is None


def test_what_is_written_out_is_refused() -> None:
    for text in (
        ".{0,999}Nx.{0,999}",
        "[a-z0-9]{1,255}" * 40,  # of 30 000 instructions, which take RE2 a second to compile
        r"[\pL\pN]{99}",
        r"\pL" * 100,
        "((.{0,9}){0,9}){0,20}",
        "x{0,99}" * 80,
    ):
        mistake = regex_mistake(text)
        assert mistake is not None
        assert "is too large a regular expression for Envoy" in mistake


@given(st.text(max_size=60))
def test_any_text_has_a_cost(text: str) -> None:
    assert program_size(text) > 0
    assert group_count(text) >= 0
