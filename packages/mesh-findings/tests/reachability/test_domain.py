"""A mesh with a domain of its own: it completes the short names in what is reported."""

from collections.abc import Callable

import pytest

from mesh_findings import review
from mesh_model import MeshModel
from short_names import DOMAIN, MESH

Build = Callable[..., MeshModel]


@pytest.mark.parametrize("strict", [False, True])
def test_a_destination_that_is_missing_is_reported_with_the_domain(
    model_of: Build, *, strict: bool
) -> None:
    text = MESH.replace("{host: reviews, subset: v1}", "{host: ratings}")
    reported = [
        each.message
        for each in review(model_of(text, domain=DOMAIN, strict_namespaces=strict)).problems
    ]
    assert len(reported) == 1
    assert f"there is no service ratings.a.svc.{DOMAIN}:" in reported[0]
