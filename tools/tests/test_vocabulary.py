"""Words that are not used here are found wherever they hide, and words like them are not."""

from __future__ import annotations

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
