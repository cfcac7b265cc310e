"""VirtualServices that are left out for their namespace's regular expressions are reported."""

from hypothesis import given
from hypothesis import strategies as st

from large_expressions import EDITED, SERVICE, large
from mesh_findings import Findings, review
from mesh_model import MeshModel
from unreachable import unreachable
from virtual_services import model_of

NOT_ALL = "has no effect: with it and what is older, the regular expressions of namespace "


def test_the_youngest_of_a_namespace_that_are_left_out_are_reported() -> None:
    many = [large(f"v{number:03}") for number in range(40)]

    model = model_of(*many, large("other", namespace="c"))

    reported = [each for each in unreachable(model) if each.message.startswith(NOT_ALL)]
    assert len(reported) == 41 - len(model.virtual_services.all)
    assert len(reported) > 0
    assert all("namespace b " in each.message and each.field == "spec" for each in reported)


@given(st.lists(st.sampled_from(sorted(EDITED)), unique=True, max_size=6))
def test_after_any_edit_the_same_is_reported_as_at_a_fresh_start(chosen: list[str]) -> None:
    before: MeshModel | None = None
    findings: Findings | None = None
    for count in range(len(chosen) + 1):
        documents = [SERVICE, *(EDITED[each] for each in chosen[:count])]
        before = model_of(*documents, before=before)
        findings = review(before, findings)
        assert findings.problems == review(model_of(*documents)).problems
