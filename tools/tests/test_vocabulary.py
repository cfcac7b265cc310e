"""Words that are not used here are found wherever they hide, and words like them are not."""

from __future__ import annotations

from pathlib import Path

import pytest

import vocabulary


@pytest.mark.parametrize(
    "text",
    [
        "class SocketKeeper:",
        "from x import _keeper",
        "two keepers",
        "a stand-in",
        "StandIn",
        "stand_in(1)",
    ],
)
def test_a_word_is_found_in_code_and_in_prose(text: str) -> None:
    assert [line for line, _ in vocabulary.found_in(f"fine\n{text}")] == [2]


@pytest.mark.parametrize(
    "text", ["their", "returns", "state of the world", "in front of", "frontend"]
)
def test_a_word_that_only_holds_one_is_not_found(text: str) -> None:
    assert not list(vocabulary.found_in(text))


def test_each_word_found_comes_with_what_to_say() -> None:
    for word in vocabulary.INSTEAD:
        ((_, found),) = vocabulary.found_in(f"a {word} b")
        assert vocabulary.instead_of(found) == vocabulary.INSTEAD[word]


def test_a_docstring_without_a_subject_is_found() -> None:
    source = """
def one() -> None:
    '''What happens.'''

def two() -> None:
    '''The socket that is kept.'''

def three() -> None:
    return None
"""
    assert list(vocabulary.without_subject(source)) == [(2, "What")]


@pytest.mark.parametrize(
    "line",
    [
        "made = 1",
        "def f(made: int) -> None: ...",
        "def told() -> None: ...",
        "class Made: ...",
        "class ToldAgain: ...",
        "is_told = 1",
        "told_apart = 1",
        "x._made_of = 1",
        "f(made=1)",
        "def of(x: int) -> None: ...",
        "async def of(x: int) -> None: ...",
    ],
)
def test_a_name_that_says_nothing_is_found(line: str) -> None:
    ((number, word),) = vocabulary.empty_names(f"fine = 1\n{line}\n")
    assert number == 2
    assert vocabulary.INSTEAD_IN_NAMES[word]


@pytest.mark.parametrize(
    "line",
    [
        "mademoiselle = remade = 1",
        "# It is made of parts, and told.",
        "x = 'made before break'",
        "def of_host(x: int) -> None: ...",
        "def f(of: int) -> None: ...",
        "def connection_made(self, transport: object) -> None: ...",
    ],
)
def test_a_name_that_says_what_it_is_is_not_found(line: str) -> None:
    assert not list(vocabulary.empty_names(line))


@pytest.mark.parametrize(
    ("path", "code"),
    [("packages/mesh-model/src/a.py", 1), ("packages/mesh-model/tests/test_a.py", 0)],
)
def test_names_of_sources_are_looked_at(path: str, code: int, tmp_path: Path) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text("made = 1\n")
    assert vocabulary.main(tmp_path) == code
