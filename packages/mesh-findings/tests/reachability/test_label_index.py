"""The labels that something has, looked up."""

from hypothesis import given
from hypothesis import strategies as st

from mesh_findings.reachability._labels import LabelIndex

LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"))


@given(known=st.lists(LABELS), wanted=LABELS)
def test_labels_are_found_as_if_each_were_looked_at(
    known: list[dict[str, str]], wanted: dict[str, str]
) -> None:
    index = LabelIndex(tuple(sorted(each.items())) for each in known)
    assert index.has_any(wanted) == any(wanted.items() <= each.items() for each in known)
    assert bool(index) == bool(known)
