"""The services that short names mean are found in a mesh with a domain of its own."""

from pathlib import Path

from mesh_discovery._check import check_configuration
from short_names import DOMAIN, MESH


def test_check_finds_the_service_that_short_names_mean(tmp_path: Path) -> None:
    (tmp_path / "mesh.yaml").write_text(MESH)
    checked = check_configuration(tmp_path, domain=DOMAIN)
    assert [str(each) for each in (*checked.problems, *checked.unreachable)] == []
    assert [str(each) for each in checked.warnings] == []
