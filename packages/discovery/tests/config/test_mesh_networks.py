"""MeshNetworks: read from a document, or from a file of its own as Istio has it."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from mesh_discovery import ConfigLoader
from mesh_discovery._check import check_configuration
from mesh_discovery.model._facts import Facts
from mesh_discovery.model._model import build_model

BARE = "networks:\n  n2:\n    gateways:\n    - {address: 192.0.2.1, port: 15443}\n"
DOCUMENT = "apiVersion: mesh.istio.io/v1alpha1\nkind: MeshNetworks\nspec:\n  networks:\n"


def test_a_file_without_a_kind_is_read_as_istios(config_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "networks.yaml"
    file.write_text(BARE)
    loader = ConfigLoader(config_dir, mesh_networks=file)
    first = build_model(Facts(snapshot=loader.load().snapshot))
    file.write_text(BARE.replace("n2", "n3"))

    second = build_model(Facts(snapshot=loader.load([(str(tmp_path), "networks.yaml")]).snapshot))

    assert set(first.networks.gateways) == {"n2"}
    assert set(second.networks.gateways) == {"n3"}


def test_a_document_is_one_of_the_configuration(config_dir: Path) -> None:
    (config_dir / "networks.yaml").write_text(
        DOCUMENT + "    n2: {gateways: [{address: 192.0.2.1, port: 15443}]}\n"
    )

    load = ConfigLoader(config_dir).load()

    assert not load.problems
    assert set(build_model(Facts(snapshot=load.snapshot)).networks.gateways) == {"n2"}


def test_a_second_one_is_a_mistake(config_dir: Path, tmp_path: Path) -> None:
    (config_dir / "networks.yaml").write_text(DOCUMENT + "    {}\n")
    file = tmp_path / "networks.yaml"
    file.write_text(BARE)

    (problem,) = ConfigLoader(config_dir, mesh_networks=file).load().problems

    assert "a second MeshNetworks, the first is at" in problem.message


def said(config_dir: Path, fields: str) -> tuple[Sequence[str], Sequence[str]]:
    file = config_dir / "networks.yaml"
    file.write_text(DOCUMENT + f"    n2: {fields}\n")
    checked = check_configuration(config_dir)
    return (
        [str(each).removeprefix(f"{file}:") for each in checked.problems],
        [str(each).removeprefix(f"{file}:") for each in checked.warnings],
    )


GATEWAYS = "gateways: [{address: 192.0.2.1, port: 1}]"


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        (
            f"{{endpoints: [{{fromCidr: 10.0.0.0}}], {GATEWAYS}}}",
            (
                '5: spec.networks.n2.endpoints[0].fromCidr: "10.0.0.0" is not a range of addresses '
                "such as 10.1.0.0/16"
            ),
        ),
        (
            f"{{endpoints: [{{fromCidr: 10.0.0.0/8, fromRegistry: a}}], {GATEWAYS}}}",
            "5: spec.networks.n2.endpoints[0]: must have either fromCidr or fromRegistry",
        ),
        (
            "{gateways: [{port: 1}]}",
            "5: spec.networks.n2.gateways[0]: must have either address or registryServiceName",
        ),
        (
            "{gateways: [{port: 1, address: a b}]}",
            '5: spec.networks.n2.gateways[0].address: "a b" is not an IP address or a host name',
        ),
        (
            "{gateways: [{address: 192.0.2.1}]}",
            "5: spec.networks.n2.gateways[0]: the field port is missing",
        ),
    ],
)
def test_a_mistake_is_told(fields: str, wanted: str, config_dir: Path) -> None:
    assert said(config_dir, fields) == ([wanted], [])


def test_a_network_without_gateways_is_warned_of(config_dir: Path) -> None:
    assert said(config_dir, "{endpoints: [{fromCidr: 10.0.0.0/8}]}") == (
        [],
        [
            (
                "5: spec.networks.n2: has no gateways: its endpoints are called directly from "
                "every network"
            )
        ],
    )
