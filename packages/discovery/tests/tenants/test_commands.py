"""What `check`, the log and the status tell of hosts that are not their namespace's."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from documents import entry
from mesh_discovery import ConfigLoader
from planes import Plane, run_command

OUTSIDE = entry(
    "bank",
    "hosts: [api.bank.example], resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]",
    namespace="evil",
)
MESSAGE = (
    'spec.hosts[0]: "api.bank.example" is no host of namespace evil: only clients there reach it '
    'by this; say exportTo ["."], or have the mesh\'s operators give it by the annotation '
    "mesh-discovery/hosts of the Namespace"
)
Start = Callable[..., Awaitable[Plane]]


@pytest.mark.parametrize("by_env", [False, True])
async def test_check_tells_it_at_the_object(
    config_dir: Path, tmp_path: Path, *, by_env: bool
) -> None:
    (config_dir / "bank.yaml").write_text(OUTSIDE)
    check = ("check", f"--config-dir={config_dir}")
    assert (await run_command(tmp_path, *check))[0] == 0

    code, output = await (
        run_command(tmp_path, *check, MESH_DISCOVERY_STRICT_NAMESPACES="true")
        if by_env
        else run_command(tmp_path, *check, "--strict-namespaces")
    )

    assert code == 1
    assert f"bank.yaml:4: {MESSAGE}" in output


async def test_the_log_and_the_status_tell_it_as_long_as_it_is_so(
    config_dir: Path,
    tmp_path: Path,
    start_plane: Start,
    eventually: Callable[..., Awaitable[object]],
) -> None:
    (config_dir / "bank.yaml").write_text(OUTSIDE)
    plane = await start_plane(config_dir, MESH_DISCOVERY_STRICT_NAMESPACES="true")
    address = f"--monitoring-addr={plane.monitoring}"

    logged = [
        json.loads(each)
        for each in plane.process.output
        if MESSAGE.split('"', maxsplit=1)[0] in each
    ]
    (record,) = logged
    assert record["msg"] == "configuration is served, and no proxy can reach it"
    _, output = await run_command(tmp_path, "status", address)
    assert MESSAGE in output

    (config_dir / "given.yaml").write_text(
        "apiVersion: v1\nkind: Namespace\n"
        'metadata: {name: evil, annotations: {mesh-discovery/hosts: "*.bank.example"}}\n'
    )

    async def is_shown() -> bool:
        return MESSAGE in (await run_command(tmp_path, "status", address))[1]

    await eventually(is_shown, wanted=False, what="a status without it")


def test_wrong_annotations_are_mistakes(config_dir: Path) -> None:
    (config_dir / "given.yaml").write_text(
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: evil\n  annotations:\n"
        '    mesh-discovery/hosts: "*.ok.example, a b, *"\n'
        '    mesh-discovery/addresses: "10.0.0.0/8, 10.0.0.1, 10/8"\n'
    )

    messages = {each.message for each in ConfigLoader(config_dir).load().problems}

    assert messages == {
        'the annotation mesh-discovery/hosts: "a b" is no host such as shop.example or *.example',
        'the annotation mesh-discovery/addresses: "10/8" is no address or range such as 10.0.0.0/8',
    }
