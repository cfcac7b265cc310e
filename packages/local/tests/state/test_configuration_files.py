"""The files that the control plane reads, and what an edit makes of them."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from hypothesis import given
from hypothesis import strategies as st

from mesh_local import Block, MeshFile, MeshPlan, parse_mesh_file, plan_mesh
from mesh_local.state._configuration_files import (
    configuration_files,
    document_files,
    link_user_folder,
    remove_replica,
    update_files,
    write_configuration,
    write_replica,
)

Parse = Callable[[str], MeshFile]
RULE = "{{apiVersion: a/v1, kind: B, metadata: {{name: {name}}}, spec: {{x: {value}}}}}"


def plan_of(text: str) -> MeshPlan:
    return plan_mesh(parse_mesh_file(text, path=Path("mesh.yaml")), Block(number=64))


def contents(folder: Path) -> dict[Path, str]:
    files = (each for each in folder.rglob("*") if each.is_file())
    return {each.relative_to(folder): each.read_text() for each in files}


def rules(*given: tuple[str, int]) -> str:
    documents = ", ".join(RULE.format(name=name, value=value) for name, value in given)
    return f"workloads: [{{name: a, ports: [{{port: 80}}]}}]\nconfig: [{documents}]\n"


def test_each_document_has_a_file_by_its_own_name(parse: Parse) -> None:
    file = parse(rules(("one", 1), ("two", 2), ("one", 3), ("'../x'", 4)))
    assert [str(each) for each in document_files(file)] == [
        "from-mesh-file/B.one.default.yaml",
        "from-mesh-file/B.two.default.yaml",
        "from-mesh-file/B.one.default~2.yaml",
        "from-mesh-file/3.yaml",
    ]


def test_only_what_was_edited_is_written(tmp_path: Path) -> None:
    update_files(tmp_path, configuration_files(plan_of(rules(("one", 1), ("two", 2)))))
    before = {each: (tmp_path / each).stat().st_ino for each in contents(tmp_path)}
    update_files(tmp_path, configuration_files(plan_of(rules(("two", 2), ("three", 3)))))
    after = {each: (tmp_path / each).stat().st_ino for each in contents(tmp_path)}
    assert {str(each) for each, _ in after.items() - before.items()} == {
        "from-mesh-file/B.three.default.yaml"
    }
    assert {str(each) for each in before.keys() - after.keys()} == {
        "from-mesh-file/B.one.default.yaml"
    }


WORKLOADS = st.lists(
    st.sampled_from(
        [
            "{name: a, ports: [{port: 80}]}",
            "{name: a, ports: [{port: 80}], namespace: shop}",
            "{name: b, service: a, ports: [{port: 80}], version: v2}",
            "{name: c, replicas: 2}",
            "{name: d, ports: [{port: 82}], replicas: 3}",
            "{name: d, ports: [{port: 83}]}",
        ]
    ),
    min_size=1,
    unique_by=lambda text: text[7],
)
DOCUMENTS = st.lists(st.tuples(st.sampled_from(["one", "two"]), st.integers(1, 2)), max_size=3)


@given(st.lists(st.tuples(WORKLOADS, DOCUMENTS), min_size=2, max_size=4))
def test_edits_leave_the_files_that_a_start_would_write(
    versions: list[tuple[list[str], list[tuple[str, int]]]],
) -> None:
    with TemporaryDirectory() as folder:
        edited, fresh = Path(folder, "edited"), Path(folder, "fresh")
        plans = [
            plan_of(
                f"workloads: [{', '.join(workloads)}]\nconfig: "
                f"[{', '.join(RULE.format(name=name, value=value) for name, value in documents)}]\n"
            )
            for workloads, documents in versions
        ]
        for plan in plans:
            update_files(edited, configuration_files(plan))
        update_files(fresh, configuration_files(plans[-1]))
        assert contents(edited) == contents(fresh)


def test_the_service_of_a_replica_that_still_stops_stays(tmp_path: Path) -> None:
    before = plan_of("workloads: [{name: a, ports: [{port: 80}]}, {name: b}]")
    after = plan_of("workloads: [{name: b}]")
    update_files(tmp_path, configuration_files(after, leaving=before.instances))
    service = tmp_path / "services/a.default.yaml"
    assert yaml.safe_load(service.read_text())["spec"]["ports"][0]["number"] == 80
    update_files(tmp_path, configuration_files(after))
    assert not service.exists()


def test_a_replica_out_of_service_is_known_and_not_healthy(tmp_path: Path) -> None:
    (instance,) = plan_of("workloads: [{name: a, ports: [{port: 80}]}]").instances
    write_replica(tmp_path, instance, in_service=False)
    entry = yaml.safe_load((tmp_path / "workloads/a.yaml").read_text())
    assert entry["status"] == {"conditions": [{"type": "Healthy", "status": "False"}]}
    assert entry["spec"]["labels"]["mesh-local/out-of-service"] == "true"
    write_replica(tmp_path, instance)
    entry = yaml.safe_load((tmp_path / "workloads/a.yaml").read_text())
    assert "status" not in entry
    assert "mesh-local/out-of-service" not in entry["spec"]["labels"]
    remove_replica(tmp_path, instance)
    remove_replica(tmp_path, instance)  # once more is no mistake
    assert not contents(tmp_path)


def test_the_user_s_folder_is_changed_and_let_go(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.mkdir()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rule.yaml").write_text(name)
        for _ in range(2):
            link_user_folder(config, tmp_path / name)
            assert (config / "user/rule.yaml").read_text() == name
    link_user_folder(config, None)
    assert not [*config.iterdir()]


def test_a_start_writes_the_same_files(tmp_path: Path, plan: MeshPlan) -> None:
    write_configuration(plan, config=tmp_path / "config", mesh_config=tmp_path / "mesh.yaml")
    names = {str(each.parent / each.stem) for each in contents(tmp_path / "config")}
    assert names == {
        "mesh-local",
        "services/backend.shop",
        "services/frontend.shop",
        "workloads/backend-1",
        "workloads/backend-2",
        "workloads/frontend",
        "workloads/visitor",
    }
