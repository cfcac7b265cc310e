"""What users get wrong, through the real commands: one clear sentence each.

Where there is something to hold on to (a running agent, a last good configuration), it is held;
see also test_control_plane.py.
"""

import os
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from mesh_e2e import (
    ROOT,
    TOKEN,
    ForeignAuthority,
    agent_environment,
    mesh_of,
    own_address,
    put,
    run_command,
    running_agent,
)
from mesh_testkit import until

ADDRESS = own_address(1)
"""For the commands run here by hand; mesh-local never uses it."""
AGENT_ENVIRONMENT = agent_environment(ADDRESS, ISTIOD_SAN="istiod.istio-system.svc")

GOOD = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: shop}
spec:
  hosts: [shop.example.org]
  ports: [{number: 80, name: http, protocol: HTTP}]
"""


async def run_discovery(directory: Path, *options: str) -> tuple[int, str]:
    status, _, errors = await run_command(
        "mesh_discovery",
        "discovery",
        "--config-dir=config",
        "--ca-dir=ca",
        f"--http-addr={ADDRESS}:8080",
        "--grpc-addr=",
        f"--secure-grpc-addr={ADDRESS}:15012",
        "--monitoring-addr=",
        *options,
        environment=os.environ,
        directory=directory,
    )
    return status, errors


def give_secrets(directory: Path, *, root: bytes | None = None, token: str | None = None) -> None:
    put(directory, TOKEN, token or "not.a.token")
    put(directory, ROOT, root or ForeignAuthority(directory / "foreign", "cluster.local").root_pem)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("spec:\n  hosts: [a\nkind: x\n", "config/shop.yaml:3: not valid YAML"),
        (
            GOOD.replace("hosts:", "hosst:"),
            "config/shop.yaml:5: spec.hosst: unknown field; did you mean hosts?",
        ),
        (
            GOOD.replace("ServiceEntry", "ServiceEntri"),
            "config/shop.yaml:2: kind: ",
        ),
        (
            GOOD.replace("number: 80", "number: http"),
            "config/shop.yaml:6: spec.ports[0].number: expected a whole number",
        ),
    ],
)
async def test_a_control_plane_does_not_start_with_an_invalid_configuration(
    tmp_path: Path, text: str, sentence: str
) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "shop.yaml").write_text(text)
    status, errors = await run_discovery(tmp_path)
    assert status == 1
    assert f"mesh-discovery: {sentence}" in errors
    assert all(line.startswith("mesh-discovery: config/") for line in errors.splitlines())


async def test_a_control_plane_names_the_port_that_is_in_use(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    with socket.create_server((ADDRESS, 15012)):
        status, errors = await run_discovery(tmp_path)
    assert (status, len(errors.splitlines())) == (1, 1)
    assert f"{ADDRESS}:15012" in errors
    assert "in use" in errors


@pytest.mark.parametrize(
    ("missing", "changes", "sentence"),
    [
        ("", {"ENVOY_PATH": "/nowhere/envoy"}, "ENVOY_PATH names /nowhere/envoy"),
        (
            "",
            {"PROXY_CONFIG": '{"discoveryAdress": "a:1"}'},
            "PROXY_CONFIG: 'discoveryAdress' is not a field",
        ),
        ("token", {}, f"token file {TOKEN} does not exist"),
        ("root", {}, f"root certificate {ROOT} does not exist"),
    ],
)
async def test_an_agent_that_cannot_start_says_why(
    tmp_path: Path, missing: str, changes: Mapping[str, str], sentence: str
) -> None:
    give_secrets(tmp_path)
    if missing:
        (tmp_path / {"token": TOKEN, "root": ROOT}[missing]).unlink()
    status, _, errors = await run_command(
        "mesh_agent",
        "proxy",
        "sidecar",
        environment={**AGENT_ENVIRONMENT, **changes},
        directory=tmp_path,
    )
    assert (status, len(errors.splitlines())) == (1, 1)
    assert errors.startswith(f"mesh-agent: {sentence}")


async def test_an_agent_names_the_port_that_is_in_use(tmp_path: Path) -> None:
    give_secrets(tmp_path)
    with socket.create_server((ADDRESS, 15020)):
        status, _, errors = await run_command(
            "mesh_agent",
            "proxy",
            environment=AGENT_ENVIRONMENT,
            directory=tmp_path,
        )
    assert (status, len(errors.splitlines())) == (1, 1)
    assert f"{ADDRESS}:15020" in errors
    assert "in use" in errors


@pytest.mark.slow
async def test_an_agent_waits_for_a_control_plane_and_says_so(tmp_path: Path) -> None:
    give_secrets(tmp_path)
    async with running_agent(tmp_path, AGENT_ENVIRONMENT) as agent:
        log = agent.log
        await until(lambda: "cannot reach the control plane" in log.read_text(), what="a warning")
        again = "cannot reach the control plane, repeatedly"
        await until(lambda: again in log.read_text(), what="further tries")
        status = await agent.status()
        assert not status["ready"]
        assert status["reasons"]
        assert f"{ADDRESS}:15012" in log.read_text()


@pytest.mark.slow
async def test_an_agent_with_a_wrong_root_certificate_says_so(tmp_path: Path) -> None:
    directory = tmp_path / "agent"
    directory.mkdir()
    async with mesh_of("workloads: [{name: pod}]", tmp_path) as mesh:
        real = mesh.workload("pod").agent.spec
        give_secrets(directory, token=(real.directory / TOKEN).read_text())
        control_plane = mesh.plan.discovery_address
        proxy_config = f'{{"discoveryAddress": "{control_plane}"}}'
        environment = {**AGENT_ENVIRONMENT, "PROXY_CONFIG": proxy_config}
        async with running_agent(directory, environment) as agent:
            sentence = (
                f'reason="wrong root certificate: its certificate is not signed by a root in {ROOT}'
            )
            await until(lambda: sentence in agent.log.read_text(), what=sentence)
            assert f'address="{control_plane}"' in agent.log.read_text()
            status = await agent.status()
            assert not status["ready"]
            assert "serial" not in status["certificate"]


@pytest.mark.slow
async def test_a_token_of_another_issuer_is_refused_and_the_agent_says_so(tmp_path: Path) -> None:
    directory = tmp_path / "agent"
    directory.mkdir()
    async with mesh_of("workloads: [{name: pod}]", tmp_path) as mesh:
        root = (mesh.workload("pod").agent.spec.directory / ROOT).read_bytes()
        give_secrets(directory, root=root)
        control_plane = mesh.plan.discovery_address
        proxy_config = f'{{"discoveryAddress": "{control_plane}"}}'
        environment = {**AGENT_ENVIRONMENT, "PROXY_CONFIG": proxy_config}
        async with running_agent(directory, environment) as agent:
            await until(lambda: "UNAUTHENTICATED" in agent.log.read_text(), what="a refusal")
            assert not (await agent.status())["ready"]
