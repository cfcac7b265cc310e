"""An answer edited from an earlier one by its difference is the answer generated as a whole."""

from __future__ import annotations

import gc

from hypothesis import given
from hypothesis import strategies as st

from xds_server import Generated, Resource, type_urls

CONTENTS = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("12"), max_size=8)
EDIT = st.dictionaries(st.sampled_from("abcdefgh"), st.none() | st.sampled_from("12"), max_size=4)
CLIENT = st.sampled_from(["reads slowly", "has it", "still has what was removed", "lost one"])
EDITS = st.lists(st.tuples(EDIT, CLIENT), max_size=12)


def resource(name: str, version: str) -> Resource:
    body = version.encode()
    return Resource(name=name, type_url=type_urls.CLUSTER, body=body, version=version)


def generated_from(content: dict[str, str]) -> Generated:
    return Generated(resources=[resource(*each) for each in content.items()])


@given(content=CONTENTS, edits=EDITS)
def test_an_edited_answer_is_the_whole_one(
    content: dict[str, str], edits: list[tuple[dict[str, str | None], str]]
) -> None:
    answer = generated_from(content)
    client_has = answer.by_name()
    for edit, client in edits:
        for name, version in edit.items():
            if version is None:
                content.pop(name, None)
            else:
                content[name] = version
        edited = answer.edit_base().apply(
            [resource(name, version) for name, version in edit.items() if version is not None],
            [name for name, version in edit.items() if version is None],
        )
        assert edited is not None
        whole = generated_from(content)
        assert edited.by_name() == whole.by_name()
        assert {each.name for each in edited.resources} == content.keys()
        new, gone = client_has.difference(edited.by_name(), complete=True)
        expected = {
            name
            for name, each in whole.by_name().items()
            if name not in client_has or client_has[name].version != each.version
        }
        assert set(new) == expected
        assert gone == frozenset(client_has.keys() - whole.by_name().keys())
        answer = edited
        match client:
            case "has it":
                client_has = edited.by_name()
            case "still has what was removed":
                client_has = client_has.with_changes(new, frozenset())
            case "lost one":
                client_has = client_has.with_changes(new, frozenset(list(client_has)[:1]))
            case _:
                assert client == "reads slowly"


def test_a_resource_of_the_same_version_is_not_new() -> None:
    first = generated_from({"a": "1", "b": "1"})
    edited = first.edit_base().apply([resource("a", "1"), resource("b", "2")])
    assert edited is not None
    new, gone = first.by_name().difference(edited.by_name(), complete=True)
    assert (list(new), gone) == (["b"], frozenset())
    assert edited.by_name()["a"] is first.by_name()["a"]


def test_an_answer_that_no_client_has_is_not_held() -> None:
    first = generated_from({"a": "1"})
    base = first.edit_base()
    held_before = base.is_held
    del first
    gc.collect()
    assert (held_before, base.is_held) == (True, False)
    assert base.apply([resource("a", "2")]) is None


def test_an_answer_that_comes_back_to_what_a_client_has_is_the_same_mapping() -> None:
    first = generated_from({"a": "1", "b": "1"})
    second = first.edit_base().apply([resource("a", "2")])
    assert second is not None
    third = second.edit_base().apply([resource("a", "1")])
    assert third is not None
    assert third.by_name() is first.by_name()
    new, gone = second.by_name().difference(third.by_name(), complete=True)
    assert (list(new), gone) == (["a"], frozenset())
