"""Links that lead nowhere or to what is no file, in the place of each file that the commands read.

Each ends with sentences that name the file, and never with a traceback.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from mesh_e2e import ROOT, TOKEN, ForeignAuthority, agent_environment, own_address, put, run_command

pytestmark = pytest.mark.slow

ADDRESS = own_address(2)
"""For the commands run here; mesh-local never uses it."""
TARGETS = {
    "itself": None,
    "a long name": "x" * 300,
    "a device": "/dev/zero",
}
odd_links = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


def put_odd_link(directory: Path, place: str, target: str | None) -> None:
    path = directory / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target or path.name)


@odd_links
@pytest.mark.parametrize(
    ("place", "variables"),
    [
        ("etc/istio/pod/labels", {}),
        ("etc/istio/pod/annotations", {}),
        ("etc/istio/config/mesh", {}),
        ("bootstrap.json", {"ISTIO_BOOTSTRAP": "bootstrap.json"}),
        ("bin/envoy", {"ENVOY_PATH": "bin/envoy"}),
        (str(TOKEN), {}),
        (str(ROOT), {}),
    ],
)
async def test_an_agent_names_the_file(
    tmp_path: Path, place: str, variables: Mapping[str, str], target: str | None
) -> None:
    put(tmp_path, TOKEN, "not.a.token")
    put(tmp_path, ROOT, ForeignAuthority(tmp_path / "foreign", "cluster.local").root_pem)
    put_odd_link(tmp_path, place, target)

    status, _, errors = await run_command(
        *("mesh_agent", "proxy", "sidecar"),
        environment=agent_environment(ADDRESS, **variables),
        directory=tmp_path,
    )

    assert "Traceback" not in errors
    assert status == 1
    assert place in errors


@odd_links
@pytest.mark.parametrize(
    "option", ["--config-dir", "--mesh-config", "--mesh-networks", "--ca-dir", "--jwks-file"]
)
async def test_the_control_plane_names_the_file(
    tmp_path: Path, option: str, target: str | None
) -> None:
    (tmp_path / "config").mkdir()
    put_odd_link(tmp_path, "odd", target)
    given = {"--config-dir": "config", "--ca-dir": "ca", "--http-addr": f"{ADDRESS}:8080"}
    given |= {"--jwt-issuer": "somebody"} if option == "--jwks-file" else {}
    given |= {"--grpc-addr": "", "--secure-grpc-addr": f"{ADDRESS}:15012", "--monitoring-addr": ""}
    options = [f"{name}={text}" for name, text in (given | {option: "odd"}).items()]

    status, _, errors = await run_command(
        "mesh_discovery", "discovery", *options, environment=os.environ, directory=tmp_path
    )

    assert "Traceback" not in errors
    assert status == (2 if option == "--jwks-file" else 1)
    assert "odd" in errors


@odd_links
@pytest.mark.parametrize("option", ["--token", "--ca-root"])
async def test_a_client_of_the_authority_names_the_file(
    tmp_path: Path, option: str, target: str | None
) -> None:
    put_odd_link(tmp_path, "odd", target)
    plaintext = ("--plaintext",) if option == "--token" else ()

    status, _, errors = await run_command(
        *("certclient", "get", "--ca", f"{ADDRESS}:1", *plaintext),
        *("--spiffe-id", "spiffe://cluster.local/ns/shop/sa/cart"),
        *(option, str(tmp_path / "odd"), "--output", str(tmp_path / "out")),
        environment=os.environ,
        directory=tmp_path,
    )

    assert "Traceback" not in errors
    assert status == 1
    assert "odd" in errors
