"""In a dump of a cluster, what means nothing to a mesh is let pass."""

from pathlib import Path

from documents import CLUSTER_DUMP
from mesh_discovery._check import check_configuration


def test_the_dump_is_a_good_configuration_with_a_note_for_each_kind_let_pass(
    config_dir: Path,
) -> None:
    (config_dir / "cluster.yaml").write_text(CLUSTER_DUMP.read_text())
    checked = check_configuration(config_dir)

    assert checked.is_good
    assert not checked.warnings
    assert [note.message for note in checked.notes] == [
        "ServiceAccount means nothing to a mesh: let pass",
        "Deployment.apps means nothing to a mesh: let pass",
        "ReplicaSet.apps means nothing to a mesh: let pass",
        "Certificate.cert-manager.io means nothing to a mesh: let pass",
    ]
