"""The mesh config and the networks of the mesh in files beside the directory, as Istio has them."""

from pathlib import Path

from mesh_discovery import ConfigLoader
from mesh_model import Facts, build_model

MESH = "apiVersion: mesh.istio.io/v1alpha1\nkind: MeshConfig\nspec:\n"
NETWORKS = "apiVersion: mesh.istio.io/v1alpha1\nkind: MeshNetworks\nspec: {networks: {}}\n"
BARE_NETWORKS = "networks:\n  n2:\n    gateways:\n    - {address: 192.0.2.1, port: 15443}\n"


def test_networks_without_a_kind_are_read_as_istios(config_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "networks.yaml"
    file.write_text(BARE_NETWORKS)
    loader = ConfigLoader(config_dir, mesh_networks=file)
    first = build_model(Facts(snapshot=loader.load().snapshot))
    file.write_text(BARE_NETWORKS.replace("n2", "n3"))

    second = build_model(Facts(snapshot=loader.load([(str(tmp_path), "networks.yaml")]).snapshot))

    assert set(first.networks.gateways) == {"n2"}
    assert set(second.networks.gateways) == {"n3"}


def test_second_networks_are_a_mistake(config_dir: Path, tmp_path: Path) -> None:
    (config_dir / "networks.yaml").write_text(NETWORKS)
    file = tmp_path / "networks.yaml"
    file.write_text(BARE_NETWORKS)

    (problem,) = ConfigLoader(config_dir, mesh_networks=file).load().problems

    assert "a second MeshNetworks, the first is at" in problem.message


def test_a_second_mesh_config_is_reported_even_if_one_is_the_mesh_config_file(
    config_dir: Path, tmp_path: Path
) -> None:
    (config_dir / "mesh.yaml").write_text(MESH + "  trustDomain: a.b\n")
    file = tmp_path / "mesh"
    file.write_text("trustDomain: c.d\n")

    (problem,) = ConfigLoader(config_dir, mesh_config=file).load().problems

    assert "a second mesh config, the first is at" in problem.message


def test_files_that_cannot_be_read_are_problems(config_dir: Path, tmp_path: Path) -> None:
    (config_dir / "latin.yaml").write_bytes("a: 1\nb: ü\n".encode("latin-1"))
    (config_dir / "gone.yaml").symlink_to(tmp_path / "nowhere")

    problems = ConfigLoader(config_dir, mesh_config=tmp_path / "no-mesh").load().problems

    assert [(Path(each.file).name, each.line) for each in problems] == [
        ("gone.yaml", 1),
        ("latin.yaml", 2),
        ("no-mesh", 1),
    ]
