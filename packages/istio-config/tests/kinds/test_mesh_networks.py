"""MeshNetworks: what is reported of its fields."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from istio_config import read_folder

DOCUMENT = "apiVersion: mesh.istio.io/v1alpha1\nkind: MeshNetworks\nspec:\n  networks:\n"


def said(config_dir: Path, fields: str) -> tuple[Sequence[str], Sequence[str]]:
    file = config_dir / "networks.yaml"
    file.write_text(DOCUMENT + f"    n2: {fields}\n")
    read = read_folder(config_dir)
    return (
        [str(each).removeprefix(f"{file}:") for each in read.problems],
        [str(each).removeprefix(f"{file}:") for each in read.warnings],
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
def test_a_mistake_is_reported(fields: str, wanted: str, config_dir: Path) -> None:
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
